package schedule

import (
	"bufio"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/load"
)

// replay is every step-th of the instants.
type replay struct {
	instants []int64
	k, step  int
}

func (r *replay) Next() int64 {
	if r.k >= len(r.instants) {
		return load.Never
	}
	at := r.instants[r.k]
	r.k += r.step
	return at
}

// maxReplay bounds the instants of a replay file: 800 MB.
const maxReplay = 100_000_000

// maxReplayFile bounds the file, in bytes.
const maxReplayFile = 4 << 30

// ReadInstants reads one instant a line, in seconds from the start, as a decimal
// number. Blank lines and lines that begin with # are passed over. The order in
// the file does not matter.
func ReadInstants(path string) ([]int64, error) {
	f, err := regular.Open(path, maxReplayFile)
	if err != nil {
		return nil, fmt.Errorf("read arrivals: %w", err)
	}
	defer f.Close()
	var instants []int64
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		at, err := strconv.ParseFloat(line, 64)
		if err != nil || !(at >= 0) || at > load.MaxDuration.Seconds() {
			return nil, fmt.Errorf("read arrivals: %s:%d: %.40q is not a number of seconds from 0 on", path, n, line)
		}
		if len(instants) == maxReplay {
			return nil, fmt.Errorf("read arrivals: %s has more than %d instants", path, maxReplay)
		}
		instants = append(instants, int64(math.Round(at*1e9)))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read arrivals: %w", err)
	}
	slices.Sort(instants)
	return instants, nil
}
