package load_test

import (
	"fmt"
	"strings"

	"github.com/tare-mesh/tare/internal/load"
)

// The engine prints a line a second and, last, the report.
func ExampleLines_Report() {
	const output = `{"progress":{"second":0,"phase":"measure","intended":100,"completed":99,"errors":0,"p50_ms":0.41}}
{"report":{"engine":"epoll","loop":"open","requests":100,"classes":{"2xx":99,"timeout":1},"rate":99,"latency_ms":{"count":99,"p50":0.41,"p99":1.2}}}
`
	report, err := load.NewLines(strings.NewReader(output)).Report(func(p load.Progress) {
		fmt.Printf("second %d: %d of %d answered\n", p.Second, p.Completed, p.Intended)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d requests, %d timeouts, p99 %v ms\n", report.Requests, report.Classes[load.Timeout], report.ResponseMS.P99)
	// Output:
	// second 0: 99 of 100 answered
	// 100 requests, 1 timeouts, p99 1.2 ms
}
