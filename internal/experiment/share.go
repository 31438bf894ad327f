package experiment

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// Share is a part of a whole, 0..1, written as "2%" or as 0.02.
type Share float64

// String is the share in percent.
func (s Share) String() string { return strconv.FormatFloat(100*float64(s), 'g', 6, 64) + "%" }

// Wants says what UnmarshalScalar expects.
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

// MarshalYAML writes what can be read.
func (s Share) MarshalYAML() (any, error) { return s.String(), nil }

// UnmarshalYAML reads what MarshalYAML writes.
func (s *Share) UnmarshalYAML(n *yaml.Node) error { return s.UnmarshalScalar(n.Value) }
