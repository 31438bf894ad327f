package experiment

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// Duration is a time.Duration written as Go writes it: "30s", "1m30s", "250ms".
type Duration = app.Duration

// Size is a number of bytes, written as a number or with a unit: 512, "1KiB", "1MB".
type Size = app.Size

// statusForm is what a [Status] looks like.
const statusForm = `^([1-5]xx|[1-9][0-9][0-9]|grpc-([0-9]|1[0-6]))$`

var statusPattern = regexp.MustCompile(statusForm)

// Wants says what UnmarshalScalar expects.
func (Status) Wants() string { return "a status such as 200, 2xx or grpc-0" }

// UnmarshalScalar reads a status.
func (s *Status) UnmarshalScalar(text string) error {
	if !statusPattern.MatchString(text) {
		return fmt.Errorf("found %.40q, expected %s", text, s.Wants())
	}
	*s = Status(text)
	return nil
}

func sizeValue(s Size) any { return float64(s) }

// String is the number, or "max".
func (r Rate) String() string {
	if r == Max {
		return "max"
	}
	return strconv.FormatFloat(float64(r), 'f', -1, 64)
}

// MarshalYAML writes what UnmarshalScalar reads.
func (r Rate) MarshalYAML() (any, error) {
	if r == Max {
		return "max", nil
	}
	return float64(r), nil
}

// Wants says what UnmarshalScalar expects.
func (Rate) Wants() string { return "a number of requests per second, or max" }

// UnmarshalScalar reads requests per second, or "max". A rate of 0 is refused:
// inside the program it would mean the maximum.
func (r *Rate) UnmarshalScalar(text string) error {
	if text == "max" {
		*r = Max
		return nil
	}
	f, err := strict.Number(text)
	switch {
	case err != nil:
		return fmt.Errorf("found %.40q, expected %s", text, r.Wants())
	case f == 0:
		return errors.New("a rate of 0 sends nothing; for as fast as possible write max")
	}
	*r = Rate(f)
	return nil
}
