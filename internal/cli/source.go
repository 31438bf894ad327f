package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
)

// copyWithin bounds the reading of a namespace.
const copyWithin = time.Minute

// objects reads the objects of an application from manifests, or from the namespace where it runs.
func (c *CommandLine) objects(x *experiment.Experiment) (*manifest.Set, error) {
	if ns := x.Application.Namespace; ns != "" {
		if err := c.needs(x); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(cmp.Or(c.until, context.Background()), copyWithin)
		defer cancel()
		set, err := c.kubernetes.Copy(ctx, x.Platform, ns)
		if err == nil && x.Application.InPlace {
			set.InPlace()
		}
		return set, err
	}
	kustomized := slices.ContainsFunc(x.Application.Manifests, func(path string) bool { return manifest.Kustomized(path) != "" })
	if !kustomized {
		return manifest.Read(nil, x.Application.Manifests...)
	}
	if err := c.needs(x); err != nil {
		return nil, err
	}
	return manifest.Read(c.kubernetes.Kustomize, x.Application.Manifests...)
}

// sourceText is the application as it was found: its Services, and what trials lack. "" if tare or a chart has it.
func (s *Study) sourceText() string {
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
	b.WriteString(s.callText())
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

// callText is the calls between services: declared in the file, or shown by the configuration of the pods.
func (s *Study) callText() string {
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

// checkSource refuses an application whose pods cannot start.
func (s *Study) checkSource() error {
	if s.Experiment.Application.Objects == nil {
		return nil
	}
	fatal := s.Experiment.Application.Objects.Fatal()
	if len(fatal) == 0 {
		return nil
	}
	var all []error
	for _, n := range fatal {
		all = append(all, errors.New(printable.Line(n.String())))
	}
	return hint.Usage(fmt.Errorf("pods of the application cannot start: %w", errors.Join(all...)), fatal[0].Hint)
}
