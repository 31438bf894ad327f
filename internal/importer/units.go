package importer

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/run/generator"
)

// Amount parses a quantity that cannot be negative.
func Amount(s string, units map[string]float64) (float64, error) {
	v, err := generator.Quantity(s, units)
	if err == nil && (v < 0 || math.Signbit(v)) {
		return 0, fmt.Errorf("%.40q is negative", s)
	}
	return v, err
}

// Suffixes of Kubernetes quantities for cores and bytes.
var (
	CPUUnits    = map[string]float64{"n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "": 1}
	MemoryUnits = map[string]float64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 1e-3, "": 1}
)

// TimeLayout is the layout of times without a zone, as kubectl scripts print them.
const TimeLayout = "2006-01-02 15:04:05"

// Limits of one cell. They reveal a shifted or damaged file.
const (
	MaxCores  = 1e6
	MaxMemory = 1 << 60 // bytes
	MaxRows   = 1 << 20 // per file
)

var errNumber = errors.New("not a number")

// Number parses a finite decimal number. Go's own parser also accepts NaN,
// infinities, hexadecimal and underscores, which no tool prints.
func Number(s string) (float64, error) {
	if s == "" || strings.ContainsAny(s, "xXpP_nNiI") {
		return 0, fmt.Errorf("%.40q is %w", s, errNumber)
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("%.40q is %w", s, errNumber)
	}
	return v, nil
}
