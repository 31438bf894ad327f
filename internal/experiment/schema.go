package experiment

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/tare-mesh/tare/internal/metric"
)

// Schema returns the JSON Schema (draft 2020-12) of the experiment file, for
// completion and checks in editors. It accepts more than [Read]: a schema cannot
// bound the product of the factors, refuse cyclic calls, or compare the baseline
// with the treatments. Mesh names are examples only, since a user can write a
// definition.
func Schema(known Known) ([]byte, error) {
	r := jsonschema.Reflector{
		Anonymous:                  true,
		DoNotReference:             true, // one tree: a type means different things in different fields
		RequiredFromJSONSchemaTags: true, // required fields are listed below
		FieldNameTag:               "yaml",
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			switch t {
			case reflect.TypeFor[Factors]():
				return factorsSchema(known, true)
			case reflect.TypeFor[Baseline]():
				return factorsSchema(known, false)
			}
			return unitSchema(t)
		},
	}
	s := r.Reflect(&Experiment{})
	s.Title = "tare experiment"
	for _, d := range describe(known) {
		p := property(s, d.path)
		if p == nil {
			return nil, fmt.Errorf("build schema: there is no field %s", d.path)
		}
		p.Description = d.text
		if d.otherwise != nil {
			p.Default = d.otherwise
		}
		if d.also != nil {
			d.also(p)
		}
	}
	s.Required = []string{"apiVersion", "kind", "metadata", "factors"}
	property(s, "metadata").Required = []string{"name"}
	for _, path := range []string{"factors", "baseline"} {
		one := uint64(1)
		property(s, path).MinProperties = &one
	}
	property(s, "application.services[]").Required = []string{"name"}
	property(s, "application.services[].calls[]").AnyOf = []*jsonschema.Schema{{Required: []string{"service"}}, {Required: []string{"wait"}}}
	// Both a topology's name and services cannot be given.
	property(s, "application").Not = &jsonschema.Schema{Required: []string{"topology", "services"}}
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("build schema: %w", err)
	}
	return append(out, '\n'), nil
}

// factorsSchema is a mapping of the factors to lists of levels, or to one level.
func factorsSchema(known Known, lists bool) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, f := range Table {
		p := f.schema(known)
		if lists {
			p = &jsonschema.Schema{Type: "array", Items: p}
			levelList(p)
		}
		s.Properties.Set(f.Name, p)
	}
	return s
}

// factorDescriptions describes the factors, or the levels of the baseline.
func factorDescriptions(under string) []description {
	var all []description
	for _, f := range Table {
		d := description{path: under + f.Name, text: "A level of factors." + f.Name + "."}
		if under == "factors." {
			d.text = f.Text
			if f.written != nil {
				d.otherwise = []any{f.written}
			}
		}
		all = append(all, d)
	}
	return all
}

// scalarSchema is the schema of a level.
func scalarSchema(t reflect.Type) *jsonschema.Schema {
	if s := unitSchema(t); s != nil {
		return s
	}
	switch t.Kind() {
	case reflect.Int:
		return &jsonschema.Schema{Type: "integer"}
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}
	case reflect.Float64:
		return &jsonschema.Schema{Type: "number"}
	}
	return &jsonschema.Schema{Type: "string"}
}

// unitSchema is the form in which the scalar types are written.
func unitSchema(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[Duration]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "string", Pattern: `^[+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`},
			{Type: "integer", Enum: []any{0}},
		}}
	case reflect.TypeFor[Size]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "integer", Minimum: "0", Maximum: num(int64(maxBodySize))},
			{Type: "string", Pattern: `^[0-9]+(\.[0-9]+)? ?(B|kB|KB|MB|GB|KiB|MiB|GiB)$`},
		}}
	case reflect.TypeFor[Cores]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "number", ExclusiveMinimum: "0", Maximum: num(maxCPU)},
			{Type: "string", Pattern: coresForm},
		}}
	case reflect.TypeFor[Share]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "number", ExclusiveMinimum: "0", ExclusiveMaximum: "1"},
			{Type: "string", Pattern: `^[0-9]+(\.[0-9]+)? *%$`},
		}}
	case reflect.TypeFor[Precision]():
		return &jsonschema.Schema{Type: "string", Pattern: `^[a-z0-9_/.]+ *(±|\+-) *[0-9.]+ *[%a-zA-Zµ/0-9]*$`}
	case reflect.TypeFor[Rate]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "number", ExclusiveMinimum: "0", Maximum: num(int64(maxRate))},
			{Type: "string", Enum: []any{"max"}},
		}}
	}
	return spreadSchema(t)
}

// property finds a schema by path; "[]" stands for the elements of a list, "*" for those of a mapping.
func property(s *jsonschema.Schema, path string) *jsonschema.Schema {
	for name := range strings.SplitSeq(path, ".") {
		if name == "*" && s.AdditionalProperties != nil {
			s = s.AdditionalProperties
			continue
		}
		name, list := strings.CutSuffix(name, "[]")
		if s.Properties == nil {
			return nil
		}
		next, ok := s.Properties.Get(name)
		if !ok {
			return nil
		}
		if s = next; list {
			s = s.Items
		}
	}
	return s
}

// description is what the schema says of one field beyond its type.
type description struct {
	path, text string
	otherwise  any // the default
	also       func(*jsonschema.Schema)
}

func num(n int64) json.Number { return json.Number(fmt.Sprint(n)) }

func between(low, high int64) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) { s.Minimum, s.Maximum = num(low), num(high) }
}

func ratio(s *jsonschema.Schema) { between(0, 1)(s) }

func levelList(s *jsonschema.Schema) {
	one := uint64(1)
	s.MinItems, s.UniqueItems = &one, true
}

func oneOf(names ...string) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) { s.Enum = anys(names) }
}

func label(s *jsonschema.Schema) { s.Pattern = `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$` }

func anys(names []string) []any {
	var out []any
	for _, n := range names {
		out = append(out, n)
	}
	return out
}

// statusItems allows a number as well as text.
func statusItems(s *jsonschema.Schema) {
	s.Type = ""
	s.AnyOf = []*jsonschema.Schema{{Type: "integer", Minimum: "100", Maximum: "999"}, {Type: "string", Pattern: statusForm}}
}

// describe has a line for every field; a test holds it to that.
func describe(known Known) []description {
	examples := func(names []string) func(*jsonschema.Schema) {
		return func(s *jsonschema.Schema) { s.Examples = anys(names) }
	}
	d := defaults()
	return slices.Concat([]description{
		{"apiVersion", "Version of this format.", nil, oneOf(APIVersion)},
		{"kind", "What this file is.", nil, oneOf(Kind)},
		{"metadata", "Names the experiment.", nil, nil},
		{"metadata.name", "A DNS label: it becomes part of the names of directories and namespaces.", nil, label},
		{"metadata.description", "What the experiment is for, in a sentence.", nil, nil},
		{"platform", "Where trials run.", nil, nil},
		{"platform.kind", "local: processes on this machine, without root and without a cluster; kubernetes: a cluster.", d.Platform.Kind, oneOf(known.Platforms...)},
		{"platform.context", "Context of the kubeconfig, on kubernetes; left out: the current one.", nil, nil},
		{"platform.kubeconfig", "Path of the kubeconfig, on kubernetes; left out: as kubectl finds it.", nil, nil},
		{"platform.image", "Image of tare-agent in the cluster; left out: the one `tare image build` makes.", nil, nil},
		{"platform.images", "Images of load generators in the cluster, by the generator's name, in place of those tare knows: a reference, or agent where the program is in platform.image.", nil, imageForms},
		{"platform.images.*.image", "The image's reference.", nil, nil},
		{"platform.images.*.path", "Path of the program in the image; left out: where tare knows it to be, else at the root by its own name.", nil, nil},
		{"platform.digests", "Digests that images are held to, by their references, whoever names them: {\"ghcr.io/hatoo/oha:1.16.0\": \"sha256:…\"}. A trial with another one fails.", nil, digestValues},
		{"platform.affinity", "Where pods may stand, on kubernetes. auto: replicas of a service on different nodes where there are several, the load on others than the application; labels: on the nodes labelled tare.dev/role=application and tare.dev/role=load; none: anywhere.", affinities[0], oneOf(affinities...)},
		{"platform.namespace", "A namespace that is there, on kubernetes, for trials to be made in one after another, for who may make none; left out: each trial makes one of its own, and removes it.", nil, label},
		{"platform.resources", "What each container asks for and may have, on kubernetes, by plane: app, load. The same for every treatment; left out: 10m CPU and 16MiB, at most 512MiB and no limit on CPU.", nil, resourcePlanes},
		{"platform.resources.*.requests", "What is asked for.", nil, nil},
		{"platform.resources.*.requests.cpu", "Processors: 0.25, or 250m.", nil, nil},
		{"platform.resources.*.requests.memory", "Memory: 64MiB.", nil, memoryAmount},
		{"platform.resources.*.limits", "The most it may have. A limit on CPU holds a container back, which is measured as its own slowness.", nil, nil},
		{"platform.resources.*.limits.cpu", "Processors; left out: no limit.", nil, nil},
		{"platform.resources.*.limits.memory", "Memory; a container that takes more is killed.", nil, memoryAmount},
		{"platform.inUse", "What becomes of a cluster that is in use or is not marked as disposable, on kubernetes.", inUse[0], oneOf(inUse...)},
		{"platform.expose", "Way into the cluster for load.from: outside. nodePort: a port of a node that the entry runs on; loadBalancer: where the cluster makes them; portForward: through the API server, which is then part of what is measured.", nil, oneOf(exposures...)},
		{"platform.cpus", "Pins planes to processors, as taskset writes them: {load: \"1\", app: \"0,2-3\"}.", nil, pinning},
		{"platform.meter", "Where CPU and memory of containers come from, on kubernetes: kubelet, metrics-api or prometheus; left out: the kubelets, or the Metrics API where they may not be asked.", nil, oneOf(known.Meters...)},
		{"platform.prometheus", "Address of a Prometheus that scrapes the kubelets, for meter: prometheus: http://localhost:9090.", nil, nil},
		{"application", "The services under test: a topology by name or by file, or services written out here.", nil, nil},
		{"application.topology", "Name of a topology, or the path of a topology's file, relative to this one.", "echo", examples(known.topologies())},
		{"application.entry", "Service that receives the load; the first where left out.", nil, nil},
		{"application.services", "Services, written out.", nil, levelList},
		{"application.chart", "A Helm chart that the services are installed from, on kubernetes; application.services then says what its Services are called, and who calls whom.", nil, nil},
		{"application.chart.chart", "oci://…, a directory or an archive (relative to this file), or a name in repo.", nil, nil},
		{"application.chart.repo", "URL of a chart repository.", nil, nil},
		{"application.chart.version", "Version of the chart.", nil, nil},
		{"application.chart.release", "Name of the release.", "app", label},
		{"application.chart.values", "Values for the chart, as YAML in a text.", nil, nil},
		{"application.chart.spread", "Values that go over them where there are several nodes and platform.affinity is not none, as YAML in a text.", nil, nil},
		{"application.chart.replicas", "The value that is given the level of factors.replicas: defaultReplicas, or face.replicas.", nil, nil},
		{"application.chart.port", "Port of the entry's Service.", 80, between(1, 65535)},
	}, describeServices(), describeMeshes(), []description{
		{"factors", "Lists of levels; their product is the treatments. A factor left out has its default as its only level.", nil, nil},
	}, factorDescriptions("factors."), []description{
		{"load", "How requests are sent.", nil, nil},
		{"load.generator", "Load generator, where it is no factor.", d.Load.Generator, oneOf(known.Generators...)},
		{"load.from", "Where the load is sent from, on kubernetes. inside: load workers in pods; outside: the machine tare runs on, by platform.expose.", nil, oneOf(loadFrom...)},
		{"load.entry", "What the load is sent to, on kubernetes. service: the entry's Service; gateway: the ingress gateway of each mesh, with the load outside of the mesh, and without a mesh the entry's Service.", nil, oneOf(entries...)},
		{"load.arrivals", "Distribution of the times between requests of an open loop.", d.Load.Arrivals, oneOf(arrivals...)},
		{"load.timeout", "After this time a request has failed; at most 60s.", d.Load.Timeout.String(), nil},
		{"load.workers", "Threads of the load generator.", d.Load.Workers, between(1, maxWorkers)},
		{"load.checks", "What an answer must be like to count as a success; any other counts as an error. Only the generator tare looks.", nil, nil},
		{"load.checks.status", "Statuses that count as success: codes, classes, of gRPC grpc-0 to grpc-16; left out: 2xx and grpc-0. What follows is looked for in answers with one of these.", nil, func(s *jsonschema.Schema) { levelList(s); statusItems(s.Items) }},
		{"load.checks.bodyHas", "Texts that every body must contain, in its first MiB.", nil, levelList},
		{"load.checks.bodyLacks", "Texts that no body may contain.", nil, levelList},
		{"load.checks.jsonHas", "Fields that every body, which then must be JSON, must have: errors, or data.errors for one within another. One that is null, an empty list or an empty object counts as absent.", nil, levelList},
		{"load.checks.jsonLacks", "Fields that no body may have; some servers answer 200 and say in a field what failed.", nil, levelList},
		{"phases", "The timed phases of a trial.", nil, nil},
		{"phases.warmup", "Load that is not measured, until the system is warm.", d.Phases.Warmup.String(), nil},
		{"phases.measure", "What is measured; at least 1s.", d.Phases.Measure.String(), nil},
		{"phases.drain", "How long requests in flight at the end may still take.", d.Phases.Drain.String(), nil},
		{"phases.idle", "When application and data plane count as idle, before the load and after it. On kubernetes, whose counters are refreshed every 10 to 16 seconds.", nil, nil},
		{"phases.idle.cpu", "Cores they may use and be idle.", d.Phases.Idle.CPU, func(s *jsonschema.Schema) { s.Minimum = "0" }},
		{"phases.idle.memory", "Memory they may hold and be idle; 0: any.", 0, nil},
		{"phases.idle.deadline", "How long it is waited for; then the trial goes on with a warning.", d.Phases.Idle.Deadline.String(), nil},
		{"blocks", "Repetitions of every treatment; every block runs each once, in random order. A number, or min, max and until.", d.Blocks.Max, blockForms},
		{"blocks.min", "Blocks before which the run does not stop.", d.Blocks.Min, between(minSequential, MaxTrials)},
		{"blocks.max", "Blocks after which it stops in any case.", d.Blocks.Max, between(1, MaxTrials)},
		{"blocks.until", "Stop once the interval of every difference to the baseline is this narrow: a metric and half of a width, such as " + precisionExample + " (of what the treatment comes to) or " + metric.Latency + "/p99 ±0.1ms.", nil, nil},
		{"order", "Order of the trials. random: every block has all treatments in random order, and a mesh comes and goes as that order has it; turns: within a block the treatments of one mesh stand together; once: so they do over all blocks, a mesh comes once a run, and what changes with time cannot be told from it.", orders[0], oneOf(orders...)},
		{"seed", "The same seed gives the same order of trials and the same arrivals.", d.Seed, between(0, maxSeed)},
		{"baseline", "Levels that every other treatment is compared with; factors left out keep the treatment's own level. Where none is among the meshes, {mesh: none}.", nil, nil},
	}, factorDescriptions("baseline."), []description{
		{"control", "Runs the baseline twice in every block. Both are the same: what differs between them is the noise floor.", false, nil},
		{"probe", "Runs a fixed piece of work of about a tenth of a second before and after each trial's load. What it takes tells how slow the processors were; a report uses it where that narrows an interval.", true, nil},
		{"confidence", "Confidence of intervals.", d.Confidence, func(s *jsonschema.Schema) { s.ExclusiveMinimum, s.ExclusiveMaximum = "0.5", "1" }},
		{"equivalence", "Margin of a ratio to the baseline that counts as the same, such as 2%: verdicts then tell \"the same to within 2%\" from \"no difference shown\".", nil, nil},
		{"validity", "Limits beyond which a trial is invalid.", nil, nil},
		{"validity.errorRatio", "Largest share of requests that failed.", d.Validity.ErrorRatio, ratio},
		{"validity.rateShortfall", "Largest share of the asked rate that was missed.", d.Validity.RateShortfall, ratio},
		{"validity.unattributed", "Largest share of CPU time that matched no attribution rule.", d.Validity.Unattributed, ratio},
		{"validity.generatorCPU", "Largest share of a processor that a worker of the load generator may use.", d.Validity.GeneratorCPU, ratio},
		{"validity.lateness", "Largest p99 of how late requests were sent; 0: 1ms or a tenth of the median response time, whichever is more.", 0, nil},
	}, faultDescriptions())
}

// resourcePlanes are the planes whose containers' resources can be said.
func resourcePlanes(s *jsonschema.Schema) {
	s.PropertyNames = &jsonschema.Schema{Enum: anys(planesWithResources)}
}

// digestValues have the form of a digest.
func digestValues(s *jsonschema.Schema) { s.AdditionalProperties.Pattern = digestForm }

// memoryAmount is a size that is no body's.
func memoryAmount(s *jsonschema.Schema) {
	s.AnyOf[0] = &jsonschema.Schema{Type: "integer", Minimum: num(int64(minMemory)), Maximum: num(int64(maxMemory))}
}

// imageForms allows the reference alone as well as the mapping.
func imageForms(s *jsonschema.Schema) {
	long := *s.AdditionalProperties
	s.AdditionalProperties = &jsonschema.Schema{Properties: long.Properties, AnyOf: []*jsonschema.Schema{
		{Type: "string"}, {Type: "object", Required: []string{"image"}}}}
}

// blockForms allows a number as well as the mapping.
func blockForms(s *jsonschema.Schema) {
	s.Type = ""
	s.AnyOf = []*jsonschema.Schema{{Type: "integer"}, {Type: "object", Required: []string{"max", "until"}}}
	between(1, MaxTrials)(s)
}

func pinning(s *jsonschema.Schema) {
	s.AdditionalProperties.Pattern = `^[0-9]+(-[0-9]+)?( *, *[0-9]+(-[0-9]+)?)*$`
	s.PropertyNames = &jsonschema.Schema{Enum: anys(planesToPin)}
}
