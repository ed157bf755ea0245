package routing

import (
	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/request"
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
