package record

import (
	"cmp"
	"fmt"
	"net/http"
	"syscall"

	"github.com/tare-mesh/tare/internal/load"
)

// judgeConnections warns where fewer connections were open than the profile has. It names
// the server if that closed the missing ones.
func judgeConnections(r *load.Report, p *load.Profile) {
	want := int64(p.Connections)
	if r.ExtraBytes > 0 {
		r.Warn("on %d connections the server sent bytes after the end of a response%s: no request counts as failed by that", r.ExtraBytes,
			map[bool]string{true: " to HEAD, which has no body"}[p.Method == http.MethodHead])
	}
	switch {
	case r.ConnectErrors[load.FailureNoDescriptors.String()] > 0: // whatever the server did
		r.Warn("%d of %d connections were open when the load began, as this machine ran out of file descriptors%s: %s",
			r.Connected, want, filesLimit(), Tally(r.ConnectErrors, r.Reasons))
	case p.NoKeepAlive:
	case r.GoAways > 0 && r.ClosedUnused > 0 && r.Held < want:
		why := ""
		if reason := r.Reasons[load.FailureGoAway.String()]; reason != "" {
			why = ", " + reason
		}
		r.Warn("the server ended %d connections by GOAWAY%s: %d of them before their first response", r.GoAways, why, min(r.GoAways, r.ClosedUnused))
	case r.ClosedUnused > 0 && r.Held < want && r.Completed > 0:
		r.Warn("the server holds only %d of %d connections: it closed %d before their first response; use fewer connections, or raise its limit",
			r.Held, want, r.ClosedUnused)
	case r.Connected < want:
		r.Warn("%d of %d connections were open when the load began: %s", r.Connected, want, cmp.Or(Tally(r.ConnectErrors, r.Reasons), "no more could be opened in time"))
	}
}

// filesLimit names the limit of this process, the load's, in brackets.
func filesLimit() string {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return ""
	}
	return fmt.Sprintf(" (limit of a process: %d; raise it with ulimit -n, or use fewer connections)", limit.Cur)
}
