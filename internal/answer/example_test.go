package answer_test

import (
	"encoding/json"
	"fmt"

	"github.com/tare-mesh/tare/internal/answer"
)

// A figure that is unknown is absent: the interval of a comparison with too few trials.
func ExampleReport() {
	const file = `{"schema":"tare.report/v1","confidence":0.95,"comparisons":[
{"treatment":"envoy","baseline":"none","metric":"cpu_us_per_request/total","n":13,"difference":{"estimate":357,"low":348,"high":366},"verdict":"higher"},
{"treatment":"envoy","baseline":"none","metric":"latency_ms/p99","n":1,"difference":{"estimate":0.8},"verdict":"insufficient"}]}`
	var r answer.Report
	if err := json.Unmarshal([]byte(file), &r); err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range r.Comparisons {
		if !c.Difference.Known() {
			fmt.Printf("%s: %v, without an interval\n", c.Metric, c.Difference.Estimate)
			continue
		}
		fmt.Printf("%s: %v (%v to %v), %s\n", c.Metric, c.Difference.Estimate, *c.Difference.Low, *c.Difference.High, c.Verdict)
	}
	// Output:
	// cpu_us_per_request/total: 357 (348 to 366), higher
	// latency_ms/p99: 0.8, without an interval
}
