package record

import (
	"cmp"

	"github.com/tare-mesh/tare/internal/load"
)

// judgeConnections warns where fewer connections were open than the profile has. It names
// the server if that closed the missing ones.
func judgeConnections(r *load.Report, p *load.Profile) {
	want := int64(p.Connections)
	switch {
	case p.NoKeepAlive:
	case r.ClosedUnused > 0 && r.Held < want && r.Completed > 0:
		r.Warn("the server holds only %d of %d connections: it closed %d before their first response; use fewer connections, or raise its limit",
			r.Held, want, r.ClosedUnused)
	case r.Connected < want:
		r.Warn("%d of %d connections were open when the load began: %s", r.Connected, want, cmp.Or(tally(r.ConnectErrors, r.Reasons), "no more could be opened in time"))
	}
}
