package cli

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/session"
)

// sourceText describes the application as it was found: its Services, and what trials lack. "" if tare or a chart has it.
func sourceText(s *session.Study) string {
	a := s.Experiment.Application
	if a.Objects == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "application from %s:\n", a.Objects.Source)
	tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, service := range a.Services {
		protocol, load := cmp.Or(service.Protocol, "protocol of the factor"), ""
		if service.Name == a.Entry {
			load = "receives the load"
		}
		fmt.Fprintf(tw, "  %s\tport %d\t%s\t%s\n", service.Name, service.Port, protocol, load)
	}
	_ = tw.Flush()
	b.WriteString(callText(s))
	heading := "differences of trials:\n"
	if a.InPlace {
		heading = "measured in place: each trial adds it to the mesh, restarts it, and restores it\n"
	}
	if len(a.Objects.Notes) > 0 || a.InPlace {
		b.WriteString(heading)
	}
	for _, n := range a.Objects.Notes {
		fmt.Fprintf(&b, "  %s\n", n)
		if n.Hint != "" {
			fmt.Fprintf(&b, "    %s\n", n.Hint)
		}
	}
	return printable.Text(b.String())
}

// callText lists the calls between services: declared in the file, or shown by the configuration of the pods.
func callText(s *session.Study) string {
	a := s.Experiment.Application
	var calls []string
	for _, service := range a.Services {
		for _, c := range service.Calls {
			calls = append(calls, service.Name+" -> "+c.Service)
		}
	}
	if len(calls) > 0 {
		return "calls: " + strings.Join(calls, ", ") + "\n"
	}
	if len(a.Services) < 2 {
		return ""
	}
	for _, c := range a.Objects.Calls {
		calls = append(calls, c.From+" -> "+c.To)
	}
	const seen = "trials under a mesh of sidecars print the calls that they see\n"
	if len(calls) == 0 {
		return "no addresses of services in the configuration of pods: " + seen
	}
	return "calls, by addresses in the configuration of pods: " + strings.Join(calls, ", ") + "\n  " + seen
}
