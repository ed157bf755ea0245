package routing

import (
	"fmt"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/wire"
)

// ReadOptions says how requests are read under a configuration.
func ReadOptions(cfg *config.Config) request.Options {
	opts := request.DefaultOptions()
	opts.BodyLimit = cfg.Limits.Body
	opts.MaxText = int(cfg.Affinity.MaxText)
	opts.SessionHeaders = cfg.Session.Headers
	opts.SessionBodyFields = cfg.Session.BodyFields
	return opts
}

// faults are the rows of the error table that a reader's faults stand for.
var faults = [...]wire.Error{
	request.MissingBody:         wire.ErrMissingBody,
	request.InvalidJSON:         wire.ErrInvalidJSON,
	request.InvalidEncoding:     wire.ErrInvalidEncoding,
	request.UnsupportedEncoding: wire.ErrUnsupportedEncoding,
	request.BodyTooLarge:        wire.ErrBodyTooLarge,
	request.MissingModel:        wire.ErrMissingModel,
}

// FaultAnswer says how a request is answered that could not be read, under this limit
// of bodies: the row of the error table and the message.
func FaultAnswer(fault request.Fault, bodyLimit int64) (e wire.Error, message string) {
	message = fault.Error()
	if fault == request.BodyTooLarge {
		message = fmt.Sprintf("the request body is larger than %d bytes", bodyLimit)
	}
	return faults[fault], message
}
