package result_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// An importer writes a directory of one trial, and a reader opens it.
func ExampleOpen() {
	parent, err := os.MkdirTemp("", "results")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(parent)
	path := filepath.Join(parent, "run")
	trial := plan.Trial{ID: "b01-envoy", Ordinal: 1, Block: 1, Treatment: "envoy"}
	p := plan.Plan{Schema: result.PlanSchema, Blocks: 1, Treatments: []plan.Treatment{{ID: "envoy"}}, Trials: []plan.Trial{trial}}
	if b, err := result.CreateBulk(path, nil, &p, result.Environment{}); err != nil {
		fmt.Println(err)
	} else if err := errors.Join(b.Trial(trial, result.Record{Load: &result.Load{Completed: 3000}}, nil), b.Finish(), b.Close()); err != nil {
		fmt.Println(err)
	}

	d, err := result.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	records, err := d.Records()
	for _, r := range records {
		fmt.Printf("%s: %d answers through %s\n", r.ID, r.Load.Completed, r.Treatment)
	}
	fmt.Println(len(d.Plan().Trials), "planned,", err)
	// Output:
	// b01-envoy: 3000 answers through envoy
	// 1 planned, <nil>
}

// CPU is a difference of two cumulative counters, in ns.
func ExampleRecord() {
	const file = `{"schema":"tare.results/v1","id":"b01-envoy","treatment":"envoy","valid":true,
"load":{"completed":3000},
"tasks":[{"plane":"data","role":"sidecar","start":{"cpu":1000000000},"end":{"cpu":2200000000}}]}`
	var r result.Record
	if err := json.Unmarshal([]byte(file), &r); err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range r.Tasks {
		fmt.Printf("%s %s: %v µs a request\n", t.Plane, t.Role, float64(t.End.CPU-t.Start.CPU)/1e3/float64(r.Load.Completed))
	}
	// Output: data sidecar: 400 µs a request
}

// An event is a line of events.jsonl.
func ExampleEvent() {
	const lines = `{"t":"2026-03-01T12:00:00Z","kind":"phase","trial":"b01-envoy","phase":"measure"}
{"t":"2026-03-01T12:00:01Z","kind":"progress","trial":"b01-envoy","progress":{"second":0,"rate":998,"errors":2,"p50_ms":0.5}}
`
	for d := json.NewDecoder(strings.NewReader(lines)); d.More(); {
		var e result.Event
		if err := d.Decode(&e); err != nil {
			fmt.Println(err)
			return
		}
		switch e.Kind {
		case result.KindPhase:
			fmt.Println(e.Trial, "begins the phase", e.Phase)
		case result.KindProgress:
			fmt.Printf("%v answers a second, %d errors\n", e.Progress.Rate, e.Progress.Errors)
		}
	}
	// Output:
	// b01-envoy begins the phase measure
	// 998 answers a second, 2 errors
}
