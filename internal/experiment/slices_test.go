package experiment_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/must"
)

func decodeText(body string) (*experiment.Experiment, error) {
	return experiment.Parse("x.yaml", []byte("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t}\n"+body), experiment.Names{})
}

// What treatments deployed at once cannot have is refused at the line of the order, with the reason.
func TestRefusedInterleaving(t *testing.T) {
	for body, want := range map[string]string{
		"factors: {rate: [max]}":                                                          "x.yaml:4:8: order: the treatments cannot be interleaved: rate: max has no schedule to share",
		"factors: {rate: [100], generator: [tare, wrk2]}":                                 "x.yaml:4:8: order: the treatments cannot be interleaved: only the generator tare",
		"factors: {rate: [100]}\nload: {generator: vegeta}":                               "x.yaml:4:8: order: the treatments cannot be interleaved: only the generator tare",
		"factors: {rate: [100]}\nplatform: {kind: kubernetes, namespace: x}":              "x.yaml:4:8: order: the treatments cannot be interleaved: each treatment needs a namespace",
		"factors: {rate: [100]}\nplatform: {kind: kubernetes}\nload: {from: outside}":     "x.yaml:4:8: order: the treatments cannot be interleaved: a load from outside",
		"factors: {rate: [100]}\nfaults: [{kind: kill, at: 1s, target: {service: echo}}]": "x.yaml:4:8: order: the treatments cannot be interleaved: a fault would",
		"factors: {rate: [100]}\nexpect: ['success_ratio == 1']":                          "x.yaml:4:8: order: the treatments cannot be interleaved: expectations",
		"factors: {rate: [100]}\nphases: {measure: 1050ms}":                               "x.yaml:6:19: phases.measure: 1.05s is not a whole number of slices of 100ms",
		"factors: {rate: [100]}\nslices: {length: 1ms}":                                   "x.yaml:6:18: slices.length: 1ms is not between 10ms and 1m",
		"factors: {rate: [100]}\nslices: {guard: 60ms}":                                   "x.yaml:6:17: slices.guard: 60ms is not between 0 and half of a slice (50ms)",
	} {
		_, err := decodeText("order: interleaved\n" + body + "\n")
		must.Fail(t, err, want, body)
	}
	must.Fail(t, must.Err(decodeText("factors: {rate: [100]}\nslices: {length: 100ms}\n")), "slices need order interleaved")
}

// A standard weight needs this machine, a baseline and HTTP/1.1.
func TestReference(t *testing.T) {
	for body, want := range map[string]string{
		"factors: {mesh: [none, envoy]}":                                                       "",
		"factors: {mesh: [none, envoy]}\nplatform: {kind: kubernetes}":                         "platform local only",
		"factors: {mesh: [envoy, envoy-tcp]}":                                                  "needs a baseline",
		"factors: {mesh: [none, reference]}":                                                   "among the levels already",
		"factors: {mesh: [none, envoy], protocol: [http1, grpc]}":                              "HTTP/1.1 only",
		"factors: {mesh: [none, envoy]}\napplication: {services: [{name: a, protocol: grpc}]}": "HTTP/1.1 only",
	} {
		e, err := decodeText(body + "\nreference: true\n")
		must.Match(t, err, want, body)
		if err == nil && !e.Reference {
			t.Errorf("%s: without reference", body)
		}
	}
}

// The guard is a tenth of a short slice, and a guard of the file is kept, even zero.
func TestDefaultSlices(t *testing.T) {
	for body, want := range map[string]experiment.Slices{
		"":                               {Length: experiment.Duration(100 * time.Millisecond), Guard: experiment.Duration(10 * time.Millisecond)},
		"slices: {length: 50ms}":         {Length: experiment.Duration(50 * time.Millisecond), Guard: experiment.Duration(5 * time.Millisecond)},
		"slices: {length: 2s}":           {Length: experiment.Duration(2 * time.Second), Guard: experiment.Duration(10 * time.Millisecond)},
		"slices: {length: 1s, guard: 0}": {Length: experiment.Duration(time.Second)},
		"platform: {kind: kubernetes}":   {Length: experiment.Duration(100 * time.Millisecond), Guard: experiment.Duration(10 * time.Millisecond)},
		"platform: {kind: kubernetes, meter: kubelet}\nphases: {measure: 2m}": {Length: experiment.Duration(time.Minute), Guard: experiment.Duration(10 * time.Millisecond)},
	} {
		e, err := decodeText("order: interleaved\nfactors: {rate: [100]}\n" + body + "\n")
		if err != nil || e.Slices != want {
			t.Errorf("%q: %+v, %v", body, e, err)
			continue
		}
		text := must.Get(e.YAML())(t)
		if again, err := experiment.Parse("x.yaml", text, experiment.Names{}); err != nil || again.Slices != want {
			t.Errorf("%q, rendered and read again: %+v, %v", body, again, err)
		}
	}
}

// What keeps interleaving from being the default has a reason.
func TestDefaultOrder(t *testing.T) {
	for body, want := range map[string]string{
		"factors: {rate: [100]}":                                                                   "",
		"factors: {rate: [100]}\nphases: {measure: 1050ms}":                                        "not a whole number of slices",
		"factors: {rate: [100]}\nphases: {measure: 1050ms}\nslices: {length: 50ms}":                "",
		"factors: {rate: [100]}\napplication: {topology: simulator}":                               "answers wait longer than half of a slice",
		"factors: {rate: [100]}\napplication: {topology: simulator}\nslices: {length: 1s}":         "",
		"factors: {rate: [100]}\napplication: {services: [{name: a, time: 'uniform(0s, 90ms)'}]}":  "",
		"factors: {rate: [100]}\napplication: {services: [{name: a, time: 'lognormal(40ms, 1)'}]}": "answers wait",
		"factors: {rate: [100]}\nblocks: {min: 6, max: 9, until: 'memory_peak_mib/data ±2%'}":      "peaks of memory",
		"factors: {rate: [100]}\nload: {profile: {steps: [{for: 5s, at: 2}]}}":                     "answers to a burst may arrive",
		"factors: {rate: [max]}": "rate: max has no schedule",
		"factors: {rate: [100]}\nfaults: [{kind: kill, at: 1s, target: {service: echo}}]": "a fault would",
	} {
		f := must.Get(experiment.Decode("x.yaml", []byte("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t}\n"+body+"\n")))(t)
		f.Complete()
		if why := f.Experiment.NotInterleaved(); want == "" && why != "" || !strings.Contains(why, want) {
			t.Errorf("%s: %q, want %q", body, why, want)
		}
		if want == "" {
			f.SetOrder(experiment.OrderInterleaved)
		}
		if err := f.Validate(experiment.Names{}); err != nil || (f.Experiment.Slices.Length > 0) != (want == "") {
			t.Errorf("%s: slices %+v, %v", body, f.Experiment.Slices, err)
		}
	}
}
