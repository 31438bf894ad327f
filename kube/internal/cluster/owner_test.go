package cluster

import (
	"os/exec"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

func TestOwnerState(t *testing.T) {
	here := ThisProcess()
	ended := exec.Command("true")
	must.OK(t, ended.Run())
	change := func(f func(*Owner)) Owner { o := here; f(&o); return o }
	for name, c := range map[string]struct {
		owner Owner
		want  State
	}{
		"this process":              {here, Alive},
		"an ended process":          {change(func(o *Owner) { o.PID = ended.Process.Pid }), Dead},
		"a number used again":       {change(func(o *Owner) { o.Start-- }), Dead},
		"another machine":           {change(func(o *Owner) { o.Host = "other" }), Elsewhere},
		"another container":         {change(func(o *Owner) { o.PIDs = "pid:[1]" }), Elsewhere},
		"a machine of the name":     {change(func(o *Owner) { o.Boot, o.Machine = "b", "m" }), Elsewhere},
		"nobody":                    {Owner{}, Unmarked},
		"a container before":        {change(func(o *Owner) { o.Boot, o.PIDs = "b", "pid:[1]" }), Elsewhere},
		"no machine-id, other boot": {change(func(o *Owner) { o.Boot, o.Machine = "b", "" }), Elsewhere},
	} {
		if got := c.owner.seenFrom(here); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	host := change(func(o *Owner) { o.Machine, o.PIDs = "m", initialPIDs })
	before := host
	before.Boot = "earlier"
	if got := before.seenFrom(host); got != Dead {
		t.Errorf("before this machine's start: %s", got)
	}
}
