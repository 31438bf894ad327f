// Package statstest is for tests of intervals: it has their number of experiments, and reads the documented coverage.
package statstest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// Coverage reads the numbers of the tables in docs/lab/coverage.md and speed.txt, by the first cell of the row. It is for packages
// of two directories.
func Coverage(t testing.TB) map[string][]float64 {
	t.Helper()
	text := must.Get(os.ReadFile("../../docs/lab/coverage.md"))(t)
	text = append(text, must.Get(os.ReadFile("../../test/statstest/speed.txt"))(t)...)
	rows := map[string][]float64{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for _, c := range cells[1:] {
			if v, err := strconv.ParseFloat(strings.TrimSpace(c), 64); err == nil {
				name := strings.TrimSpace(cells[0])
				rows[name] = append(rows[name], v)
			}
		}
	}
	return rows
}

// Rounds is the number of experiments of a simulation: few with `make test`, and all with `make e2e-all`, which takes minutes. In
// between the test is skipped.
func Rounds(t *testing.T, few, all int) int {
	t.Helper()
	if os.Getenv("TARE_TEST_ALL") != "" {
		return all
	}
	if !testing.Short() {
		t.Skipf("%d rounds: make test runs %d, and make e2e-all all", all, few)
	}
	t.Attr("short", fmt.Sprintf("%d of %d rounds", few, all))
	return few
}
