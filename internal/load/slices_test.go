package load

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

func TestOwnersSurviveJSON(t *testing.T) {
	in := Slices{Length: 1, Owners: Owners{0, 9, 10, 35}}
	b, err := json.Marshal(in)
	if err != nil || !strings.Contains(string(b), `"owners":"09az"`) {
		t.Fatalf("%s, %v", b, err)
	}
	var out Slices
	if err := json.Unmarshal(b, &out); err != nil || !slices.Equal(in.Owners, out.Owners) {
		t.Errorf("%+v, %v", out, err)
	}
	if err := json.Unmarshal([]byte(`{"owners":"0A"}`), &out); err == nil {
		t.Error("a capital letter is an owner")
	}
	if _, err := json.Marshal(Owners{36}); err == nil {
		t.Error("36 is an owner")
	}
}

func TestSlicesThatCannotBe(t *testing.T) {
	const ms = time.Millisecond
	good := Profile{Targets: []string{"http://127.0.0.1:1/"}, Rate: 100, Warmup: 200 * ms, Measure: 400 * ms,
		Slices: &Slices{Length: 100 * ms, Guard: 10 * ms, Owners: Owners{0, 1, 0, 1, 1, 0}}}
	must.OK(t, good.Validate())
	for want, change := range map[string]func(*Profile, *Slices){
		"closed loop":                    func(p *Profile, _ *Slices) { p.Rate = 0 },
		"number of requests and slices":  func(p *Profile, _ *Slices) { p.Requests = 5 },
		"not between 1ms":                func(_ *Profile, s *Slices) { s.Length = 0 },
		"does not fit a slice":           func(_ *Profile, s *Slices) { s.Guard = s.Length },
		"are not whole slices":           func(p *Profile, _ *Slices) { p.Warmup += ms },
		"end before the measure window":  func(p *Profile, _ *Slices) { p.Measure += 100 * ms },
		"owner 2 has no slice":           func(_ *Profile, s *Slices) { s.Own = 2 },
		"0 slices are not between 1 and": func(_ *Profile, s *Slices) { s.Owners = nil },
	} {
		p, s := good, *good.Slices
		p.Slices = &s
		change(&p, &s)
		must.Fail(t, p.Validate(), want)
	}
}
