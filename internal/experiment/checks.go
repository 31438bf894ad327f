package experiment

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// checks refuses what an answer cannot be asked to be like.
func (v validation) checks() {
	c := v.e.Load.Checks
	for _, list := range []struct {
		path  string
		texts []string
		field bool
	}{{"bodyHas", c.BodyHas, false}, {"bodyLacks", c.BodyLacks, false}, {"jsonHas", c.JSONHas, true}, {"jsonLacks", c.JSONLacks, true}} {
		for i, text := range list.texts {
			path := fmt.Sprintf("load.checks.%s[%d]", list.path, i)
			switch {
			case text == "":
				v.report(path, "", "nothing is to be looked for")
			case list.field && strings.Contains("."+text+".", ".."):
				v.report(path, "write errors, or data.errors for a field within another", "%q names no field", clip(text))
			}
		}
	}
	protocols := v.e.Factors.Protocol
	if len(protocols) == 0 {
		protocols = []string{DefaultLevels().Protocol}
	}
	for _, p := range protocols {
		if p == app.TCP && !reflect.ValueOf(c).IsZero() {
			v.report("load.checks", "a TCP exchange is checked as it is: what was sent must come back", "nothing can be checked with protocol %s", p)
		}
		if p == app.GRPC && len(c.JSONHas)+len(c.JSONLacks) > 0 {
			v.report("load.checks", "", "answers of protocol %s are no JSON", p)
		}
		for i, s := range c.Status {
			if strings.HasPrefix(string(s), "grpc-") != (p == app.GRPC) && p != app.TCP {
				v.report(fmt.Sprintf("load.checks.status[%d]", i), "", "protocol %s has no status %s", p, s)
			}
		}
	}
}
