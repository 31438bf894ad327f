package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/examples"
	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/session"
)

// listing is one kind of thing that an experiment may name, as a table.
type listing struct {
	name, about string
	header      []string
	rows        func(*session.Program) [][]string
}

var listings = []listing{
	{"meshes", "meshes for factors.mesh, which also takes the path of a definition",
		[]string{"MESH", "RUNS ON", "TESTED", "PROVIDES", "PROTOCOLS", "DESCRIPTION"}, meshRows},
	{"options", "options of meshes, for meshes.NAME.options and --option",
		[]string{"MESH", "OPTION", "DEFAULT", "MEANING"}, optionRows},
	{"apps", "application topologies",
		[]string{"APP", "SERVICES", "CALLS PER REQUEST", "PROTOCOLS", "DESCRIPTION"}, appRows},
	{"generators", "load generators, their installed version, and the definition of their latency",
		[]string{"GENERATOR", "LOOP", "VERSION", "LATENCY"}, generatorRows},
	{"platforms", "where trials run",
		[]string{"PLATFORM", "DESCRIPTION"}, platformRows},
	{"meters", "sources of CPU and memory of containers in a cluster",
		[]string{"METER", "DESCRIPTION"}, meterRows},
	{"faults", "faults that an experiment can inject",
		[]string{"FAULT", "REQUIRED", "OPTIONAL", "DESCRIPTION"}, faultRows},
	{"examples", "experiments inside the program, for run, plan and doctor",
		[]string{"EXAMPLE", "DESCRIPTION"}, exampleRows},
	{"metrics", "all metrics",
		[]string{"METRIC", "UNIT", "BETTER", "MEANING", "PARTS"}, metricRows},
}

func newListCommand(c *CommandLine) *cobra.Command {
	var names []string
	long := "list prints tables of names for experiments:\n"
	for _, l := range listings {
		names = append(names, l.name)
		long += fmt.Sprintf("\n  %-12s%s", l.name, l.about)
	}
	long += "\n\nlist meshes FILE adds the variants of an experiment file. TESTED: run, or recorded: tare's tests do not run the mesh."
	return &cobra.Command{
		Use:       "list " + strings.Join(names, "|"),
		Short:     "List the meshes, apps, load generators, platforms and metrics",
		Long:      long,
		Example:   "  tare list meshes\n  tare list meshes experiment.yaml",
		ValidArgs: names,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && args[0] == "meshes" {
				return nil
			}
			return cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, l := range listings {
				if l.name != args[0] {
					continue
				}
				rows := l.rows(c.program)
				if len(args) == 2 {
					s, err := c.Read(cmd.Context(), args[1], ExperimentOptions{})
					if err != nil {
						return err
					}
					rows = append(rows, variantRows(s)...)
				}
				return c.Table(l.header, rows)
			}
			return fmt.Errorf("unknown list %q", args[0])
		},
	}
}

// variantRows are the variants of an experiment file, described by their changes.
func variantRows(s *session.Study) [][]string {
	var all []mesh.Definition
	for _, name := range s.Experiment.Variants() {
		d := s.Meshes[name]
		d.Description = s.Experiment.Variant(name)
		if version := s.Experiment.MeshSettings(name).Version; version != "" && d.Kubernetes != nil {
			k := *d.Kubernetes
			k.Version, d.Kubernetes = version, &k
		}
		all = append(all, d)
	}
	return rowsOf(all)
}

func meshRows(*session.Program) [][]string { return rowsOf(mesh.Builtin()) }

func rowsOf(all []mesh.Definition) [][]string {
	return lists.Map(all, func(d mesh.Definition) []string {
		return []string{d.Name, strings.Join(platformsOf(d), ", "), testedBy(d), Provides(d.Provides), protocolsFor(carries(d)), d.Description}
	})
}

// platformsOf lists the platforms of a mesh, with the version of its charts.
func platformsOf(d mesh.Definition) (all []string) {
	if d.On(mesh.OnLocal) == nil {
		all = append(all, mesh.OnLocal)
	}
	switch {
	case d.On(mesh.OnKubernetes) != nil:
	case d.Kubernetes != nil && d.Kubernetes.Version != "":
		all = append(all, mesh.OnKubernetes+" "+d.Kubernetes.Version)
	default:
		all = append(all, mesh.OnKubernetes)
	}
	return all
}

// carries returns the function that refuses protocols: of the sidecars, or of a mesh that is only a gateway.
func carries(d mesh.Definition) func(protocol string) error {
	if d.OnlyGateway() {
		return d.Kubernetes.Gateway.Carries
	}
	return d.Forwards
}

// testedBy is how tare's tests cover a mesh, "-" for a sidecar of the user.
func testedBy(d mesh.Definition) string {
	_, shipped := mesh.Load(cmp.Or(d.From, d.Name))
	switch {
	case d.Recorded:
		return "recorded"
	case shipped != nil:
		return "-"
	}
	return "run"
}

func optionRows(*session.Program) (rows [][]string) {
	for _, d := range mesh.Builtin() {
		options := d.Options()
		for _, name := range slices.Sorted(maps.Keys(options)) {
			o := options[name]
			meaning := o.Doc
			if len(o.OneOf) > 0 {
				meaning += ": " + strings.Join(o.OneOf, ", ")
			}
			rows = append(rows, []string{d.Name, name, cmp.Or(o.Default, "-"), meaning})
		}
	}
	return rows
}

// Provides lists the features of a mesh.
func Provides(p mesh.Provides) string {
	var has []string
	for _, f := range []struct {
		name string
		is   bool
	}{{"mTLS", p.MTLS}, {"L7", p.L7}, {"retries", p.Retries}, {"telemetry", p.Telemetry}} {
		if f.is {
			has = append(has, f.name)
		}
	}
	if len(has) == 0 {
		return "nothing"
	}
	return strings.Join(has, ", ")
}

func appRows(*session.Program) [][]string {
	return lists.Map(app.Builtin(), func(t app.Topology) []string {
		return []string{t.Name, strconv.Itoa(len(t.Services)), strconv.Itoa(t.Edges()), protocolsFor(func(p string) error { return t.Speaks(p) }), t.Description}
	})
}

// protocolsFor lists the protocols that nothing refuses.
func protocolsFor(refused func(protocol string) error) string {
	all := app.Protocols()
	some := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return refused(p) != nil })
	if len(some) == len(all) {
		return "all"
	}
	return strings.Join(some, ", ")
}

func generatorRows(p *session.Program) (rows [][]string) {
	versions := map[string]string{}
	for _, s := range generator.FindAll(context.Background(), p.Generators) {
		versions[s.Name] = foundVersion(s)
	}
	for _, g := range p.Generators {
		name := g.Name()
		rows = append(rows, []string{name, strings.Join(generator.Loops(name), ", "), cmp.Or(versions[name], "built in"), latencyOf(name)})
	}
	return rows
}

// foundVersion is the version that was found, or how to come by the generator.
func foundVersion(s generator.Sought) string {
	if s.Err == nil {
		return s.Found.Version
	}
	return "none: " + hint.Of(s.Err)
}

// latencyOf describes the latency of a generator: response time if it reports that, otherwise service time.
func latencyOf(name string) string {
	for _, kind := range []string{"response", "service"} {
		if m := generator.Meaning(name, kind); m != "" {
			return kind + " time: " + m
		}
	}
	return "unknown"
}

func platformRows(p *session.Program) (rows [][]string) {
	return lists.Map(p.Platforms, func(one session.Platform) []string { return []string{one.Name, one.Doc} })
}

func meterRows(*session.Program) [][]string {
	return lists.Map(session.ClusterMeters, func(m struct{ Name, Doc string }) []string { return []string{m.Name, m.Doc} })
}

func faultRows(*session.Program) (rows [][]string) {
	none := func(names []string) string {
		if len(names) == 0 {
			return "-"
		}
		return strings.Join(names, ", ")
	}
	for _, k := range experiment.FaultKinds() {
		doc := k.Doc
		if k.Ability == experiment.ImpairNetworks {
			doc += " (on the local platform with CAP_NET_ADMIN)"
		}
		rows = append(rows, []string{k.Name, none(k.Required), none(k.Optional), doc})
	}
	return rows
}

// metricRows has one line a metric, with its parts in the last column.
func metricRows(*session.Program) (rows [][]string) {
	for _, r := range metric.Rows() {
		name, parts := r.Name, strings.Join(r.Parts, ", ")
		switch {
		case r.Routes:
			parts = "path of a route, or name of a request"
		case len(r.Parts) == 1:
			name, parts = metric.Of(r.Name, r.Parts[0]), ""
		}
		rows = append(rows, []string{name, cmp.Or(r.Unit, "1"), r.Better.String(), r.Doc, cmp.Or(parts, "-")})
	}
	return rows
}

// sentenceEnd ends the first sentence of a comment.
var sentenceEnd = regexp.MustCompile(`[.?:](?:\s|$)`)

// exampleRows have the first sentence of each example.
func exampleRows(*session.Program) (rows [][]string) {
	for _, name := range examples.Names() {
		data, _ := examples.Read(name)
		var comment []string
		for line := range strings.Lines(string(data)) {
			if !strings.HasPrefix(line, "#") {
				break
			}
			comment = append(comment, strings.Fields(strings.TrimPrefix(line, "#"))...)
		}
		about := strings.Join(comment, " ")
		if at := sentenceEnd.FindStringIndex(about); at != nil {
			about = about[:at[0]+1]
		}
		rows = append(rows, []string{name, about})
	}
	return rows
}

func newServicesCommand(c *CommandLine) *cobra.Command {
	var change session.Change
	cmd := &cobra.Command{
		Use:   "services [DIR]",
		Short: "Show and change the services of a running trial",
		Long: `services lists the services of the trials that another terminal runs now, with their
configuration. With --patch it changes them while they serve requests: a JSON merge
patch (RFC 7396) of the fields of application.services, as the REST interface takes it
(docs/reference/services.md). Without DIR it takes the newest run in runs/.

The change is in the timeline of the trial and in its record. It invalidates the trial:
the others of its treatment have another configuration. For a change that is measured
write a fault (docs/reference/faults.md).`,
		Example: `  tare services
  tare services --target server --patch '{"delay": "250ms"}'
  tare services --target server-0 --patch '{"errors": {"ratio": 0.1, "status": 503}}'
  tare services runs/mine --target server-0 --patch '{"errors": null}'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (change.Target == "") != (change.Patch == "") {
				return hint.Usage(errors.New("--target and --patch need each other"), "write both, or none to list the services")
			}
			if change.Trial != "" && change.Patch == "" {
				return hint.Usage(errors.New("--trial selects what --patch changes"), "add --target and --patch")
			}
			args, err := c.orNewest(args)
			if err != nil {
				return err
			}
			if change.Patch == "" {
				return c.listServices(cmd, args[0])
			}
			made, err := session.ChangeServices(cmd.Context(), args[0], change)
			for _, one := range made {
				fmt.Fprintf(c.Out, "%s changed at %s\n", one.Target, one.At.Format("15:04:05.000"))
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&change.Target, "target", "", "`service` to change, or one of its replicas, such as server-0")
	f.StringVarP(&change.Patch, "patch", "p", "", "JSON merge `patch` of its configuration")
	f.StringVar(&change.Trial, "trial", "", "`trial` to change (default: all that run now)")
	return cmd
}

func (c *CommandLine) listServices(cmd *cobra.Command, dir string) error {
	all, err := session.Replicas(cmd.Context(), dir)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return hint.New("a trial has services from the end of `deploy` to its end; try again", "no trial of %s has services that can be changed now", dir)
	}
	var rows [][]string
	for _, one := range all {
		text := one.Why
		if text == "" {
			var compact bytes.Buffer
			if err := json.Compact(&compact, []byte(one.Config)); err != nil {
				return fmt.Errorf("read the configuration of %s: %w", one.Name, err)
			}
			text = compact.String()
		}
		rows = append(rows, []string{one.Trial, one.Name, printable.Line(text)})
	}
	return c.Table([]string{"TRIAL", "REPLICA", "CONFIGURATION"}, rows)
}

func newSchemaCommand(c *CommandLine) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [answer]",
		Short: "Print the JSON Schema of the experiment file, or of the answer in JSON results",
		Long: `schema prints the JSON Schema of the experiment file, so that an editor completes
and checks it. Editors that use the YAML language server read it from a first line
in the file:

  # yaml-language-server: $schema=tare.schema.json

With answer it prints the schema of the field answer, which every result in JSON has.`,
		Example:   "  tare schema > tare.schema.json\n  tare schema answer > answer.schema.json",
		ValidArgs: []string{"answer"},
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		RunE: func(_ *cobra.Command, args []string) error {
			build := func() ([]byte, error) { return experiment.Schema(c.program.Names()) }
			if len(args) > 0 {
				build = answer.BriefSchema
			}
			text, err := build()
			if err != nil {
				return err
			}
			_, err = c.Out.Write(text)
			return err
		},
	}
}
