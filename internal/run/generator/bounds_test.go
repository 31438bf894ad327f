package generator

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
)

// newlines never ends.
type newlines struct{}

func (newlines) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("\n"), len(p))), nil }

// A text without an end is refused before it is in memory.
func TestEndlessElement(t *testing.T) {
	endless := io.MultiReader(strings.NewReader("<testResults><responseData>"), newlines{})
	must.Fail(t, EachJMeterXMLRecord(endless, func(Record) {}), "an element or text is longer than 16777216 bytes")
}

func TestTimesBeyondDurations(t *testing.T) {
	err := EachGatlingRecord(strings.NewReader("RUN\ta\tb\t1\t \t3.9.5\nREQUEST\t\tget\t9500000000000\t9500000000001\tOK\t \n"), func(Record) {})
	must.Fail(t, err, "a request from 9500000000000 to 9500000000001")
}

func TestVersionOfAB(t *testing.T) {
	o := must.Get(ParseAB(strings.NewReader("This is ApacheBench, Version 2.3 <$Revision: 1923142 $>\nConcurrency Level:      2\nTime taken for tests:   0.500 seconds\nComplete requests:      10\nFailed requests:        0\nTotal transferred:      1000 bytes\nRequests per second:    20.00 [#/sec] (mean)\n\nConnection Times (ms)\n              min  mean[+/-sd] median   max\nTotal:          1    2   0.5      2       3\n\nPercentage of the requests served within a certain time (ms)\n  50%      2\n 100%      3 (longest request)\n")))(t)
	if o.Version != "2.3" {
		t.Errorf("version %q, want 2.3", o.Version)
	}
}
