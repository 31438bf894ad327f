package experiment

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/jsonschema"
	"github.com/tare-mesh/tare/internal/metric"
)

// Schema returns the JSON Schema (draft 2020-12) of the experiment file, for
// completion and checks in editors. It accepts more than [File.Validate]: a schema cannot
// bound the product of the factors, refuse cyclic calls, or compare the baseline
// with the treatments. Mesh names are examples only, since a user can write a
// definition.
func Schema(names Names) ([]byte, error) {
	s := jsonschema.Of(reflect.TypeFor[Experiment](), func(t reflect.Type) *jsonschema.Schema {
		switch t {
		case reflect.TypeFor[Factors]():
			return factorsSchema(names, true)
		case reflect.TypeFor[Baseline]():
			return factorsSchema(names, false)
		}
		return unitSchema(t)
	})
	s.Title = "tare experiment"
	for _, d := range describe(names) {
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
	call := property(s, "application.services[].calls[]")
	call.Type = "" // the name of the service, or a mapping
	call.AnyOf = []*jsonschema.Schema{{Type: "string"}, {Type: "object", Required: []string{"service"}}, {Type: "object", Required: []string{"wait"}}}
	// A topology's name excludes services.
	property(s, "application").Not = &jsonschema.Schema{Required: []string{"topology", "services"}}
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("build schema: %w", err)
	}
	return append(out, '\n'), nil
}

// factorsSchema is a mapping of the factors to lists of levels, or to one level.
func factorsSchema(names Names, lists bool) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, f := range Table {
		p := f.schema(names)
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
		if f.Name == "rate" {
			list := map[bool]string{true: "[]"}[under == "factors."]
			all = append(all, describeSearch(under+f.Name+list+".")...)
		}
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
	case reflect.TypeFor[RateLevel]():
		return rateSchema()
	}
	return spreadSchema(t)
}

// property finds a schema by path. "[]" stands for the elements of a list, "*" for the values of a mapping.
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

// description is the documentation of one field in the schema.
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
	s.AnyOf = []*jsonschema.Schema{{Type: "integer", Minimum: "100", Maximum: "599"}, {Type: "string", Pattern: statusForm}}
}

// describe has a line for every field. A test holds it to that.
func describe(names Names) []description {
	examples := func(all []string) func(*jsonschema.Schema) {
		return func(s *jsonschema.Schema) { s.Examples = anys(all) }
	}
	d := defaults()
	return slices.Concat([]description{
		{"apiVersion", "Version of this format.", nil, oneOf(APIVersion)},
		{"kind", "Kind of file.", nil, oneOf(Kind)},
		{"metadata", "Name and purpose.", nil, nil},
		{"metadata.name", "DNS label, part of directory and namespace names.", nil, label},
		{"metadata.description", "Purpose, in a sentence.", nil, nil},
		{"platform", "Where trials run.", nil, nil},
		{"platform.kind", "local: processes on this machine; kubernetes: a cluster.", d.Platform.Kind, oneOf(names.Platforms...)},
		{"platform.context", "Context of the kubeconfig; default: the current one.", nil, nil},
		{"platform.kubeconfig", "Path of the kubeconfig; default: as in kubectl.", nil, nil},
		{"platform.image", "Image of tare-agent; default: the one of `tare image build`.", nil, nil},
		{"platform.images", "Images of load generators, by generator: a reference, or agent for a program in platform.image.", nil, imageForms},
		{"platform.images.*.image", "Image reference.", nil, nil},
		{"platform.images.*.path", "Path of the program in the image.", nil, nil},
		{"platform.digests", "Pinned digests, by image reference: {\"ghcr.io/hatoo/oha:1.16.0\": \"sha256:…\"}. A trial with another digest fails.", nil, digestValues},
		{"platform.affinity", "Placement of pods. auto: replicas on different nodes, the load apart from the application; labels: by the node label tare.dev/role; none: the scheduler decides.", affinities[0], oneOf(affinities...)},
		{"platform.namespace", "Existing namespace for all trials; default: each trial creates one.", nil, label},
		{"platform.resources", "Container resources, by plane (app, load). Default: 10m CPU and 16MiB, limit 512MiB, no CPU limit.", nil, resourcePlanes},
		{"platform.resources.*.requests", "Resource requests.", nil, nil},
		{"platform.resources.*.requests.cpu", "Cores: 0.25, or 250m.", nil, nil},
		{"platform.resources.*.requests.memory", "Memory: 64MiB.", nil, memoryAmount},
		{"platform.resources.*.limits", "Resource limits. A CPU limit shows as latency.", nil, nil},
		{"platform.resources.*.limits.cpu", "Cores; default: no limit.", nil, nil},
		{"platform.resources.*.limits.memory", "Memory; a container above it is OOMKilled.", nil, memoryAmount},
		{"platform.inUse", "Handling of a cluster that is in use or not marked as disposable.", inUse[0], oneOf(inUse...)},
		{"platform.expose", "Way into the cluster for load.from: outside. nodePort: a node of the entry; loadBalancer: the cluster's; portForward: through the API server, which is measured too.", nil, oneOf(exposures...)},
		{"platform.cpus", "CPU pinning by plane, in taskset's format: {load: \"1\", app: \"0,2-3\"}.", nil, pinning},
		{"platform.meter", "Source of CPU and memory: kubelet, metrics-api or node-agent; default: kubelet, or metrics-api without nodes/proxy.", nil, oneOf(names.Meters...)},
		{"application", "Services under test.", nil, nil},
		{"application.topology", "Name of a topology, or path of a topology file.", "echo", examples(names.topologies())},
		{"application.entry", "Service that receives the load; default: the first.", nil, nil},
		{"application.services", "Services of an inline topology.", nil, levelList},
		{"application.command", "One's own program with its arguments, on this machine: the only service, app. ${port} is its port, also in the variable PORT.", nil, nil},
		{"application.url", "Address of a running program, instead of a command: http://127.0.0.1:8080.", nil, nil},
		{"application.env", "Environment variables of the command, added to those of tare.", nil, nil},
		{"application.dir", "Working directory of the command; default: the directory of the file.", nil, nil},
		{"application.ready", "Path that is answered with 2xx or 3xx once the program serves; default: any answer at /.", nil, nil},
		{"application.chart", "Helm chart of the application; application.services names its Services and their calls.", nil, nil},
		{"application.chart.chart", "oci:// reference, directory, archive, or name in repo.", nil, nil},
		{"application.chart.repo", "URL of a chart repository.", nil, nil},
		{"application.chart.version", "Version of the chart.", nil, nil},
		{"application.chart.release", "Name of the release.", "app", label},
		{"application.chart.values", "Values, as YAML text.", nil, nil},
		{"application.chart.spread", "Additional values with several nodes and affinity, as YAML text.", nil, nil},
		{"application.chart.replicas", "Value that receives factors.replicas: defaultReplicas, or face.replicas.", nil, nil},
		{"application.chart.port", "Port of the entry's Service.", 80, between(1, 65535)},
		{"application.manifests", "Files and directories of Kubernetes objects that run the application, on a cluster. Services, ports and protocols are found; name the entry.", nil, levelList},
		{"application.namespace", "Namespace of a running application, on a cluster. It is copied into each trial's namespace, and only read.", nil, label},
		{"application.inPlace", "Measures the application of the namespace where it runs: each trial enrols and restarts it, and puts it back.", false, nil},
	}, describeServices(names), describeMeshes(), []description{
		{"factors", "Lists of levels. Their product is the treatments.", nil, nil},
	}, factorDescriptions("factors."), describeLoad(names), []description{
		{"phases", "Timed phases of a trial.", nil, nil},
		{"phases.warmup", "Load before the measure phase.", d.Phases.Warmup.String(), nil},
		{"phases.measure", "Measure phase, at least 1s.", d.Phases.Measure.String(), nil},
		{"phases.drain", "Time for requests in flight at the end.", d.Phases.Drain.String(), nil},
		{"phases.idle", "When application and data plane count as idle, on kubernetes.", nil, nil},
		{"phases.idle.cpu", "Maximum cores when idle.", d.Phases.Idle.CPU, func(s *jsonschema.Schema) { s.Minimum = "0" }},
		{"phases.idle.memory", "Maximum memory when idle; 0: any.", 0, nil},
		{"phases.idle.deadline", "Maximum wait for idle; then the trial continues with a warning.", d.Phases.Idle.Deadline.String(), nil},
		{"blocks", "Repetitions of every treatment: a number, or min, max and until.", d.Blocks.Max, blockForms},
		{"blocks.min", "Minimum number of blocks.", d.Blocks.Min, between(minSequential, MaxTrials)},
		{"blocks.max", "Maximum number of blocks.", d.Blocks.Max, between(1, MaxTrials)},
		{"blocks.until", "Interval width at which the run stops: metric and half width, such as " + precisionExample + " or " + metric.Latency + "/p99 ±0.1ms.", nil, nil},
		{"order", "Order of the trials. balanced: random, each treatment in each position and after each other one equally often. random: random within each block. by-mesh: one batch per mesh within a block. once: one batch per mesh in the run, so mesh and time are confounded. interleaved: the treatments of a comparison at once, in time slices. Default: random in a file with a seed; else interleaved on platform local where nothing forbids it, or balanced.", nil, oneOf(orders...)},
		{"slices", "Time slices of order interleaved.", nil, nil},
		{"slices.length", "Length of a slice, in which one treatment has the load.", defaultSlices.Length.String(), nil},
		{"slices.guard", "End of a slice without load: answers arrive, and counters are read. Default: 10ms, at most a tenth of the length.", nil, nil},
		{"seed", "Seed of order and arrivals. Default: drawn, printed and recorded.", nil, between(0, maxSeed)},
		{"baseline", "Levels to compare with; other factors keep the treatment's level. Default: {mesh: none}.", nil, nil},
	}, factorDescriptions("baseline."), []description{
		{"control", "Runs the baseline twice in every block, to measure the noise floor.", false, nil},
		{"controlAll", "Runs every treatment twice in every block: the noise of a mesh is larger than that of none.", false, nil},
		{"reference", "Runs the reference proxy beside each baseline in every block, and reports costs in its weight too (platform local, HTTP/1.1).", false, nil},
		{"ladder", "Reports what each level of factors.mesh adds to the level before it, the baseline first, as tare report --ladder does.", false, nil},
		{"probe", "Measures the processors' speed before and after each load, for about a tenth of a second.", true, nil},
		{"confidence", "Confidence of intervals.", d.Confidence, func(s *jsonschema.Schema) { s.ExclusiveMinimum, s.ExclusiveMaximum = "0.5", "1" }},
		{"equivalence", "Ratio margin that counts as the same, such as 2%.", nil, nil},
		{"validity", "Limits for valid trials.", nil, nil},
		{"validity.errorRatio", "Maximum share of failed requests.", d.Validity.ErrorRatio, ratio},
		{"validity.rateShortfall", "Maximum missing share of the rate.", d.Validity.RateShortfall, ratio},
		{"validity.unattributed", "Maximum share of CPU without attribution rule.", d.Validity.Unattributed, ratio},
		{"validity.generatorCPU", "Maximum share of a core for a generator thread.", d.Validity.GeneratorCPU, ratio},
		{"validity.lateness", "Maximum p99 lateness; 0: 1ms or a tenth of the median response time, the larger one.", 0, nil},
	}, describeDecide(), faultDescriptions())
}

// resourcePlanes restricts the keys of resources to planes.
func resourcePlanes(s *jsonschema.Schema) {
	s.PropertyNames = &jsonschema.Schema{Enum: anys(planesWithResources)}
}

// digestValues have the form of a digest.
func digestValues(s *jsonschema.Schema) { s.AdditionalProperties.Pattern = digestForm }

// memoryAmount sets the limits of memory, which differ from the limits of a body.
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
