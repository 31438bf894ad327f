package compare_test

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/compare"
)

func ExampleParseGate() {
	gate, err := compare.ParseGate("cpu_us_per_request/total < +2%")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(gate.Metric, gate.Upper, gate.Limit, gate.Relative)
	// Output: cpu_us_per_request/total true 2 true
}
