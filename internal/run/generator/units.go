package generator

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Units in the texts of wrk, wrk2 and vegeta, by the printed suffix.
var (
	timeUnits = map[string]float64{
		"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "sec": 1, "secs": 1, "m": 60, "min": 60, "h": 3600,
	}
	countUnits = map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
	sizeUnits  = map[string]float64{
		"": 1, "B": 1, "bytes": 1,
		"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50,
		"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40, "PB": 1 << 50,
		"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	}
)

// textSeconds parses a text like "1.31ms" to seconds, and ok is false if it is not a
// time.
func textSeconds(s string) (float64, bool) {
	v, err := Quantity(s, timeUnits)
	return v, err == nil
}

// textCount parses "12345" or "3.24k".
func textCount(s string) (float64, bool) {
	v, err := Quantity(s, countUnits)
	return v, err == nil && v >= 0
}

// textSize parses "1.42MB" to bytes, in powers of 1024.
func textSize(s string) (float64, bool) {
	v, err := Quantity(s, sizeUnits)
	return v, err == nil && v >= 0
}

// Quantity parses "12.5ms" by a table of units. Numbers that are not finite are
// errors: wrk2 prints "-nanus" for a run without latencies.
func Quantity(s string, units map[string]float64) (float64, error) {
	s = strings.TrimSpace(s)
	end := len(s)
	for i, c := range s {
		if (c < '0' || c > '9') && c != '.' && !(c == '-' && i == 0) {
			end = i
			break
		}
	}
	n, err := strconv.ParseFloat(s[:end], 64)
	if err != nil {
		return 0, fmt.Errorf("read %.40q: no number", s)
	}
	unit, ok := units[strings.TrimSpace(s[end:])]
	if !ok {
		return 0, fmt.Errorf("read %.40q: unknown unit %.20q", s, s[end:])
	}
	if v := n * unit; !math.IsInf(v, 0) && !math.IsNaN(v) {
		return v, nil
	}
	return 0, fmt.Errorf("read %.40q: out of range", s)
}
