package experiment_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/must"
)

const searchText = header + "factors:\n  mesh: [none, envoy]\n  rate:\n    - 100\n    - max: \"p99 < 50ms, errors < 0.1%\"\n"

// A search is a level like any other: it has defaults, and is read again as written.
func TestSearchOfRate(t *testing.T) {
	e := must.Get(experiment.Parse("x.yaml", []byte(searchText), known))(t)
	search := experiment.Capacity{Objective: "p99 < 50ms, errors < 0.1%", Share: 0.6, Probes: 12, Length: experiment.Duration(2 * time.Second)}
	if want := []experiment.RateLevel{{Rate: 100}, {Capacity: search}}; !reflect.DeepEqual(e.Factors["rate"], want) {
		t.Fatalf("%+v, want %+v", e.Factors["rate"], want)
	}
	sameAfterRendering(t, e, known)
}

func TestSearchOfRateRefused(t *testing.T) {
	for text, want := range map[string]string{
		strings.Replace(searchText, "p99 <", "p98 <", 1):                                 `x.yaml:8:12: factors.rate[1].max: "p98 < 50ms": unknown figure "p98": did you mean p9`,
		strings.Replace(searchText, "errors < 0.1%", "errors", 1):                        `x.yaml:8:12: factors.rate[1].max: "errors" has no < or >`,
		searchText + "      probes: 3\n":                                                 "x.yaml:9:15: factors.rate[1].probes: ",
		searchText + "      probe: 1ms\n":                                                "x.yaml:9:14: factors.rate[1].probe: ",
		searchText + "      share: 2\n":                                                  "x.yaml:9:14: factors.rate[1].share: ",
		searchText + "      probs: 5\n":                                                  "x.yaml:9:7: factors.rate[1].probs: unknown field",
		strings.Replace(searchText, `max: "p99 < 50ms, errors < 0.1%"`, "share: 50%", 1): "x.yaml:8:7: factors.rate[1].max: ",
		searchText + "order: interleaved\n":                                              "x.yaml:9:8: order: the treatments cannot be interleaved: each treatment has a highest rate of its own",
		searchText + "load: {generator: oha}\n":                                          "x.yaml:8:7: factors.rate[1]: only the generator tare searches a rate, not oha",
		searchText + "load: {profile: {steps: [{for: 1s, at: 2}]}}\n":                    "x.yaml:8:7: factors.rate[1]: the rate cannot be searched while load.profile changes it",
		strings.Replace(searchText, "- 100\n", "- [5]\n", 1):                             "x.yaml:7:7: factors.rate[0]: found a list, expected a number of requests per second, or max",
	} {
		must.Fail(t, must.Err(experiment.Parse("x.yaml", []byte(text), known)), want, text)
	}
}
