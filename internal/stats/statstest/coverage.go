// Package statstest reads the documented coverage of intervals, which tests compare with theirs.
package statstest

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
)

// Coverage reads the numbers of the tables in docs/lab/coverage.md, by the first cell of the row. It is for packages in
// internal/answer.
func Coverage(t testing.TB) map[string][]float64 {
	t.Helper()
	b := must.Get(os.ReadFile("../../docs/lab/coverage.md"))(t)
	rows := map[string][]float64{}
	for line := range strings.Lines(string(b)) {
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
