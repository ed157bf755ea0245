package extproc

import (
	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/routing"
)

// strip adds the headers with token ids to what goes no further: an engine has no
// use for them, and they may be large.
func (p *preparedPool) strip(s *routing.Snapshot) *preparedPool {
	if !s.Config.Affinity.StripTokenIDs {
		return p
	}
	for k := range p.kinds {
		p.kinds[k].remove = append(p.kinds[k].remove, request.DefaultOptions().TokenHeaders...)
	}
	return p
}
