package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
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
		ctx, cancel := context.WithTimeout(cmp.Or(c.kill, context.Background()), copyWithin)
		defer cancel()
		return c.kubernetes.Copy(ctx, x.Platform, ns)
	}
	return manifest.Read(x.Application.Manifests...)
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
	if t, err := s.Experiment.Topology(); err == nil && t.CallsUnknown() {
		b.WriteString("calls between services are not declared: trials under a mesh of sidecars print those that they see\n")
	}
	if len(a.Objects.Notes) > 0 {
		b.WriteString("differences of trials:\n")
	}
	for _, n := range a.Objects.Notes {
		fmt.Fprintf(&b, "  %s\n", n)
		if n.Hint != "" {
			fmt.Fprintf(&b, "    %s\n", n.Hint)
		}
	}
	return printable.Text(b.String())
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
	return console.Usage(fmt.Errorf("pods of the application cannot start: %w", errors.Join(all...)), fatal[0].Hint)
}
