package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/must"
)

// The text has the form of vegeta's own report.
func TestVegeta(t *testing.T) {
	h := hdrhistogram.New(1, int64(time.Minute), 3)
	for _, ms := range []int64{1, 1, 2, 4} {
		must.OK(t, h.RecordValue(ms*1e6))
	}
	k := &attack{trials: 2, requests: 5, ok: 4, bytesIn: 50, bytesOut: 25, measured: 2500 * time.Millisecond, times: h,
		statuses: map[string]int64{"200": 4, "503": 1}, failures: map[string]int64{"wrong status": 1}}
	var out bytes.Buffer
	must.OK(t, k.write(&out))
	for _, want := range []string{
		"Requests      [total, rate, throughput]         5, 2.00, 1.60\n",
		"Duration      [total, attack, wait]             2.5s, 2.5s, 0s\n",
		"Bytes In      [total, mean]                     50, 10.00\n",
		"Bytes Out     [total, mean]                     25, 5.00\n",
		"Success       [ratio]                           80.00%\n",
		"Status Codes  [code:count]                      200:4  503:1\n",
		"Error Set:\nwrong status: 1\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	// The histogram has three digits.
	if line := regexp.MustCompile(`(?m)^Latencies     \[min, mean, 50, 90, 95, 99, max\]  1(\.00\d)?ms, 2(\.00\d)?ms, 1(\.00\d)?ms(, 4(\.00\d)?ms){4}$`); !line.MatchString(out.String()) {
		t.Errorf("latencies in\n%s", out.String())
	}
}
