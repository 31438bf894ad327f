package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// keyOf identifies a treatment by the levels of all factors, or where a plan
// does not hold them (an import) by those it names.
func keyOf(plans ...plan.Plan) func(plan.Treatment) string {
	typed := true
	for _, p := range plans {
		for _, t := range p.Treatments {
			typed = typed && t.Levels.Mesh != ""
		}
	}
	return func(t plan.Treatment) string {
		var what any = t.Factors
		if typed {
			what = t.Levels
		}
		b, err := json.Marshal(what) // maps are written in the order of their keys
		if err != nil {
			return t.ID
		}
		return fmt.Sprint(t.Control, string(b))
	}
}

// levelsAre reports whether the factors have all wanted levels.
func levelsAre(f plan.Factors, want map[string]string) bool {
	for name, level := range want {
		v, ok := f[name]
		if !ok || LevelText(v) != level {
			return false
		}
	}
	return true
}

// equalBut reports whether a and b agree in every factor that but does not name.
func equalBut(a, b plan.Factors, but map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, v := range a {
		if _, named := but[name]; !named && b[name] != v {
			return false
		}
	}
	return true
}

func levelList(m map[string]string) string {
	return strings.Join(printable.Texts(slices.Sorted(maps.Keys(m)), func(f string) string { return f + "=" + m[f] }), ",")
}

// LevelText is a level of a factor as text: numbers without exponent.
func LevelText(v any) string {
	switch v := v.(type) {
	case nil:
		return "unknown"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// WithoutRate returns the factors but for the rate.
func WithoutRate(f plan.Factors) plan.Factors { return without(f, experiment.RateFactor) }

// without returns the factors but for one.
func without(f plan.Factors, factor string) plan.Factors {
	rest := plan.Factors{}
	for name, v := range f {
		if name != factor {
			rest[name] = v
		}
	}
	return rest
}
