package report

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// rolesSection shows the roles of data and control plane, if there are several.
func rolesSection(t text) {
	var names, cpu, per, mem column
	var rows []compare.Treatment
	for _, tr := range t.view.r.Treatments {
		for _, r := range tr.Roles {
			rows = append(rows, tr)
			name := roleName(r.Role, r.Component)
			if r.Plane == metric.Control {
				name = "control plane: " + name
			}
			names.cells = append(names.cells, name)
			for _, c := range []struct {
				to    *column
				base  string
				scale float64
			}{{&cpu, metric.CPUCores, 1000}, {&per, metric.CPUPerRequest, 1}, {&mem, metric.Memory, 1}} {
				c.to.cells = append(c.to.cells, t.view.estimate(r.Metrics[c.base], c.scale))
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	labels := t.view.label.columns(rows)
	t.page.heading("Parts by role")
	names.heads, names.left = []string{"role"}, true
	cpu.heads, per.heads, mem.heads = []string{"CPU,", "millicores"}, []string{"CPU/request,", "µs"}, []string{"memory,", "MiB"}
	t.page.table(append(labels, names, cpu, per, mem), len(labels)+1)
}

// linesSection shows fixed cost and cost per request, if there are enough rates.
func linesSection(t text) {
	if len(t.view.r.Lines) == 0 {
		return
	}
	t.page.heading(fmt.Sprintf("CPU as a line over the rate (± half of the %s interval)", t.view.percent()))
	g := gridOf([]int{0, 1, 4}, "treatments", "part", "fixed,\nmillicores", "a request,\nµs", "linear?")
	for _, l := range t.view.r.Lines {
		name := l.Part
		if l.Role != "" {
			name += ": " + roleName(l.Role, l.Component)
		}
		g.row(t.view.withoutRate(l.Factors), name, figure(l.FixedCores, 1000, false), figure(l.PerRequestUS, 1, false), fitWords(l.Misfit, l.Warnings, "rate"))
	}
	t.page.table(g, 2)
}

func roleName(role, component string) string {
	switch {
	case role == result.RoleNamespace:
		return role + " " + component
	case component != "":
		return role + " of the " + component
	}
	return role
}

// fitWords is the check of a line over rates or values.
func fitWords(misfit *float64, warnings []figures.Warning, over string) string {
	switch {
	case misfit == nil:
		return "not checked"
	case len(warnings) > 0:
		return fmt.Sprintf("no (p %s): read it at each %s", pValue(*misfit), over)
	}
	return fmt.Sprintf("not rejected (p %s)", pValue(*misfit))
}

// pValue writes a p-value.
func pValue(p float64) string {
	if p < 0.001 {
		return "< 0.001"
	}
	return fixed(p, 3)
}
