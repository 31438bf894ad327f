package experiment

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load"
)

// Duration is a time.Duration written as Go writes it: "30s", "1m30s", "250ms".
type Duration = app.Duration

// Size is a number of bytes, written as a number or with a unit: 512, "1KiB", "1MB".
type Size = app.Size

// Wants describes the text for messages.
func (Status) Wants() string { return "a status such as 200, 2xx or grpc-0" }

// UnmarshalScalar reads a status.
func (s *Status) UnmarshalScalar(text string) error {
	if !load.IsStatus(text) {
		return fmt.Errorf("found %.40q, expected %s", text, s.Wants())
	}
	*s = Status(text)
	return nil
}

// String is the number, or "max".
func (r Rate) String() string {
	if r == Max {
		return "max"
	}
	return strconv.FormatFloat(float64(r), 'f', -1, 64)
}

// MarshalYAML writes a number, or max.
func (r Rate) MarshalYAML() (any, error) {
	if r == Max {
		return "max", nil
	}
	return float64(r), nil
}

// Wants describes the text for messages.
func (Rate) Wants() string { return "a number of requests per second, or max" }

// UnmarshalScalar reads requests per second, or "max". A rate of 0 is refused:
// the value 0 is [Max].
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
		return errors.New("a rate of 0 sends nothing; write max for a closed loop")
	}
	*r = Rate(f)
	return nil
}

// Share is a part of a whole, 0..1, written as "2%" or as 0.02.
type Share float64

// String is the share in percent.
func (s Share) String() string { return strconv.FormatFloat(100*float64(s), 'g', 6, 64) + "%" }

// Wants describes the text for messages.
func (Share) Wants() string { return "a share such as 2% or 0.02" }

// UnmarshalScalar reads a share.
func (s *Share) UnmarshalScalar(text string) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	f, err := strict.Number(strings.TrimSpace(number))
	if err != nil {
		return fmt.Errorf("found %.40q, expected %s", text, s.Wants())
	}
	if percent {
		f /= 100
	}
	if !(f > 0 && f < 1) {
		return fmt.Errorf("%.40q is not above 0 and below 100%%", text)
	}
	*s = Share(f)
	return nil
}

// MarshalYAML writes a percentage.
func (s Share) MarshalYAML() (any, error) { return s.String(), nil }

// UnmarshalYAML reads a share.
func (s *Share) UnmarshalYAML(n *yaml.Node) error { return s.UnmarshalScalar(n.Value) }
