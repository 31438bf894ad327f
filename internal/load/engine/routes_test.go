package engine

import (
	"net"
	"testing"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
)

// TestRoutesAreByPath checks that routes differ by path and not by server.
func TestRoutesAreByPath(t *testing.T) {
	t.Parallel()
	server := rawServer(t, answering(func(c net.Conn, _ int) bool {
		_, err := c.Write([]byte(helloResponse))
		return err == nil
	}))
	p := profile(server+"/a", server+"/b?x=1")
	r := mustRun(t, p)
	if len(r.Routes) != 2 {
		t.Errorf("%+v of %v", r.Routes, r.Classes)
	} else if d := difftest.Wrong(`r.Routes["/a"].Requests+r.Routes["/b"].Requests != r.Classes[load.OK]`, r.Routes["/a"].Requests+r.Routes["/b"].Requests != r.Classes[load.OK], `r.Routes["/a"].Requests == 0`, r.Routes["/a"].Requests == 0, `r.Routes["/b"].Requests == 0`, r.Routes["/b"].Requests == 0, `r.Routes["/a"].MeanMS <= 0`, r.Routes["/a"].MeanMS <= 0); d != "" {
		t.Errorf("%s: %+v of %v", d, r.Routes, r.Classes)
	}

	p = load.Profile{Targets: []string{"http://one/", "http://two/"}}
	if paths, of := p.Paths(); paths != nil || len(of) != 2 {
		t.Errorf("one path for all: %q, %v", paths, of)
	}
}
