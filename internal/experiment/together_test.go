package experiment_test

import (
	"strings"
	"testing"
)

// Order together is for like against like, in ratios. The refusal names the line, the reason and the remedy.
func TestLoadedTogether(t *testing.T) {
	const like = "factors: {mesh: [envoy, envoy-plaintext], rate: [100]}\nbaseline: {mesh: envoy}"
	for body, want := range map[string]string{
		like: "",
		"factors: {mesh: [none], rate: [100]}\ncontrol: true":                                           "",
		"factors: {mesh: [none, envoy], rate: [100]}":                                                   "mesh none is not like a mesh",
		"factors: {mesh: [envoy, envoy-plaintext], rate: [100]}":                                        "ratios need a baseline",
		"factors: {mesh: [envoy], rate: [max]}\nbaseline: {mesh: envoy}":                                "rate: max has no schedule to share",
		"factors: {mesh: [envoy], rate: [100], replicas: [1, 2]}\nbaseline: {mesh: envoy, replicas: 1}": "different applications are not alike",
		like + "\nreference: true":                                                                      "standard weights are of costs",
		like + "\nladder: true":                                                                         "the steps of a ladder add up",
		like + "\nblocks: {min: 6, max: 9, until: 'cpu_us_per_request/data ±2%'}":                       "until is about the interval of a difference",
		like + "\nblocks: 9\ndecide: {gates: ['cpu_us_per_request/data < +5us']}":                       "a gate has a limit in a unit",
		like + "\nblocks: 9\ndecide: {gates: ['cpu_us_per_request/data < +5%']}":                        "",
		like + "\nfaults: [{kind: kill, at: 1s, target: {service: echo}}]":                              "a fault would",
		like + "\nexpect: ['success_ratio == 1']":                                                       "expectations are checked second by second",
		like + "\nload: {generator: vegeta}":                                                            "only the generator tare",
		like + "\napplication: {url: 'http://127.0.0.1:8080'}":                                          "all treatments share a program that already runs",
		like + "\napplication: {services: [{name: a, url: 'http://127.0.0.1:8080'}]}":                   "all treatments share a program that already runs",
		like + "\nplatform: {kind: kubernetes}":                                                         "only platform local loads",
	} {
		_, err := decodeText("order: together\n" + body + "\n")
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", body, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), "x.yaml:4:8: order: the treatments cannot be loaded at once: "+want)):
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
	if _, err := decodeText("order: together\n" + like + "\nslices: {length: 1s}\n"); err == nil || !strings.Contains(err.Error(), "slices need order interleaved") {
		t.Errorf("%v", err)
	}
}
