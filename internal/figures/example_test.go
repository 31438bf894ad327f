package figures_test

import (
	"encoding/json"
	"fmt"

	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
)

// A sidecar that used 1.2 s of CPU for 3,000 answers in 10 s.
func ExampleMeasure() {
	const record = `{"id":"b01-envoy","valid":true,"load":{"loop":"open","completed":3000,"classes":{"2xx":3000},"measureSeconds":10},
"tasks":[{"plane":"data","role":"sidecar","start":{"at":"2026-03-01T12:00:00Z","cpu":1000000000},"end":{"at":"2026-03-01T12:00:10Z","cpu":2200000000}}]}`
	var r result.Record
	if err := json.Unmarshal([]byte(record), &r); err != nil {
		fmt.Println(err)
		return
	}
	trial := figures.Measure(result.Environment{}, []result.Record{r}, figures.Options{File: func(_, name string) string { return name }})[0]
	fmt.Println(trial.Metrics["rate"], "answers per second,", trial.Metrics["cpu_us_per_request/data"], "µs of the data plane each")
	// Output: 300 answers per second, 400 µs of the data plane each
}
