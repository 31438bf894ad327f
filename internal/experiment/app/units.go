package app

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// Duration is a time.Duration written as Go writes it: "30s", "1m30s", "250ms".
type Duration time.Duration

// Size is a number of bytes, written as a number or with a unit: 512, "1KiB", "1MB".
type Size int64

// String writes the duration as Go does, without the zero parts: "1m30s", "5m".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes what UnmarshalScalar reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Duration) UnmarshalText(text []byte) error { return d.UnmarshalScalar(string(text)) }

// Wants describes the text for messages.
func (Duration) Wants() string { return "a duration such as 30s, 1m30s or 250ms" }

// UnmarshalScalar reads a duration with its unit. A bare 0 needs none.
func (d *Duration) UnmarshalScalar(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil {
		if _, err := strict.Number(text); err == nil {
			return fmt.Errorf("found %.40s without a unit, expected %s", text, d.Wants())
		}
		return fmt.Errorf("found %.40q, expected %s", text, d.Wants())
	}
	*d = Duration(v)
	return nil
}

// sizeUnits are the units of a [Size], the longest names first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
}

// String writes the size exactly, in the largest binary unit that does.
func (s Size) String() string {
	for _, u := range []struct {
		name  string
		bytes Size
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalYAML writes what UnmarshalScalar reads.
func (s Size) MarshalYAML() (any, error) {
	if text := s.String(); strings.HasSuffix(text, "B") {
		return text, nil
	}
	return int64(s), nil
}

// Wants describes the text for messages.
func (Size) Wants() string { return "a size such as 512, 1KiB or 1MB" }

// UnmarshalScalar reads a number of bytes, with a unit or without.
func (s *Size) UnmarshalScalar(text string) error {
	wrong := fmt.Errorf("found %.40q, expected %s", text, s.Wants())
	number, unit := strings.TrimSpace(text), int64(1)
	for _, u := range sizeUnits {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(n), u.bytes
			break
		}
	}
	f, err := strict.Number(number)
	if err != nil {
		return wrong
	}
	bytes := f * float64(unit)
	switch {
	case bytes != math.Trunc(bytes):
		return fmt.Errorf("%.40s is not a whole number of bytes", text)
	case math.Abs(bytes) > 1<<53:
		return fmt.Errorf("%.40s is too large", text)
	}
	*s = Size(bytes)
	return nil
}
