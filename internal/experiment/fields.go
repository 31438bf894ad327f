package experiment

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/jsonschema"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// fieldRow is a field of the experiment file. Its schema, its line on the reference page and the check of its value come
// from here.
type fieldRow struct {
	path, text string // "[]" stands for the elements of a list, "*" for the values of a mapping
	otherwise  any    // the default
	bounds     bounds // nil for none
}

// blocks bounds a number of blocks, and describes the mapping beside it.
type blocks struct{ bounds }

func (b blocks) describe(s *jsonschema.Schema) {
	s.Type = ""
	s.AnyOf = []*jsonschema.Schema{{Type: "integer"}, {Type: "object", Required: []string{"max", "until"}}}
	b.bounds.describe(s)
}

// bounds checks the fields that the file has, each by its row.
func (v validation) bounds() {
	for _, row := range fieldRows(v.names) {
		if row.bounds == nil || strings.HasPrefix(row.path, "baseline.") { // baseline: checked as levels
			continue
		}
		eachValue(reflect.ValueOf(v.e), "", strings.Split(row.path, "."), func(place string, value any) {
			if b, ok := value.(bounded); ok {
				if _, one := v.doc.Text(place); !one {
					return
				}
				value = b.bound()
			}
			if _, always := row.bounds.(required); v.doc.Has(place) || always && v.doc.Has(place[:strings.LastIndex(place, ".")]) {
				v.check(place, value, row.bounds)
			}
		})
	}
}

// fieldRows has a row for every field. A test holds it to that.
func fieldRows(names Names) []fieldRow {
	d := defaults()
	return slices.Concat([]fieldRow{
		{"apiVersion", "Version of this format.", nil, enum(APIVersion)},
		{"kind", "Kind of file.", nil, enum(Kind)},
		{"metadata", "Name and purpose.", nil, nil},
		{"metadata.name", "DNS label, part of directory and namespace names.", nil, label{}},
		{"metadata.description", "Purpose, in a sentence.", nil, nil},
		{"metadata.names", "Names of levels in reports, by level: {/pay: payments}. no X is \"without a X\" in sentences.", nil, nil},
		{"platform", "Where trials run.", nil, nil},
		{"platform.kind", "local: processes on this machine; kubernetes: a cluster.", d.Platform.Kind, oneOf("platform", names.Platforms...)},
		{"platform.context", "Context of the kubeconfig; default: the current one.", nil, nil},
		{"platform.kubeconfig", "Path of the kubeconfig; default: as in kubectl.", nil, nil},
		{"platform.image", "Image of tare-agent; default: the one of `tare cluster image build`.", nil, nil},
		{"platform.images", "Images of load generators, by generator: a reference, or agent for a program in platform.image.", nil, form(imageForms)},
		{"platform.images.*.image", "Image reference.", nil, nil},
		{"platform.images.*.path", "Path of the program in the image.", nil, nil},
		{"platform.digests", "Pinned digests, by image reference: {\"ghcr.io/hatoo/oha:1.16.0\": \"sha256:…\"}. A trial with another digest fails.", nil, form(digestValues)},
		{"platform.affinity", "Placement of pods. auto: replicas on different nodes, the load apart from the application; labels: by the node label tare.dev/role; none: the scheduler decides.", affinities[0], oneOf("affinity", affinities...)},
		{"platform.namespace", "Existing namespace for all trials; default: each trial creates one.", nil, label{}},
		{"platform.resources", "Container resources, by plane (app, load). Default: 10m CPU and 16MiB, limit 512MiB, no CPU limit.", nil, form(resourcePlanes)},
	}, resourceRows("platform.resources.*."), []fieldRow{
		{"platform.inUse", "Handling of a cluster that is in use or not marked as disposable.", inUse[0], oneOf("policy for a cluster in use", inUse...)},
		{"platform.readyWithin", "Maximum time until the pods of a trial are ready, images pulled included. A certain cause, such as a missing image, ends the trial earlier.", defaultReadyWithin.String(), between(minReadyWithin, maxPhase, "")},
		{"platform.expose", "Way into the cluster for load.from: outside. nodePort: a node of the entry; loadBalancer: the cluster's.", nil, oneOf("access to the cluster", exposures...)},
		{"platform.cpus", "CPU pinning by plane, in taskset's format: {load: \"1\", app: \"0,2-3\"}.", nil, form(pinning)},
		{"platform.meter", "Source of CPU and memory: kubelet or node-agent; default: kubelet.", nil, oneOf("meter", names.Meters...)},
		{"application", "Services under test.", nil, nil},
		{"application.topology", "Name of a topology, or path of a topology file.", "echo", examples(names.topologies())},
		{"application.entry", "Service that receives the load; default: the first.", nil, nil},
		{"application.services", "Services of an inline topology.", nil, form(levelList)},
	}, ownRows("application."), []fieldRow{
		{"application.chart", "Helm chart of the application; application.services names its Services and their calls.", nil, nil},
		{"application.chart.chart", "oci:// reference, directory, archive, or name in repo.", nil, nil},
		{"application.chart.repo", "URL of a chart repository.", nil, nil},
		{"application.chart.version", "Version of the chart.", nil, nil},
		{"application.chart.release", "Name of the release.", "app", form(label{}.describe)},
		{"application.chart.values", "Values, as YAML text.", nil, nil},
		{"application.chart.spread", "Additional values with several nodes and affinity, as YAML text.", nil, nil},
		{"application.chart.replicas", "Value that receives factors.replicas: defaultReplicas, or face.replicas.", nil, nil},
		{"application.chart.port", "Port of the entry's Service.", 80, limits(1, 65535)},
		{"application.manifests", "Files and directories of Kubernetes objects that run the application, on a cluster. Services, ports and protocols are found; name the entry.", nil, form(levelList)},
		{"application.namespace", "Namespace of a running application, on a cluster. It is copied into each trial's namespace, and only read.", nil, label{}},
		{"application.inPlace", "Measures the application of the namespace where it runs: each trial enrols and restarts it, and puts it back.", false, nil},
	}, serviceRows(names), applicationVariantRows(), meshRows(), []fieldRow{
		{"factors", "Lists of levels. Their product is the treatments.", nil, nil},
	}, factorRows("factors."), loadRows(names), []fieldRow{
		{"phases", "Timed phases of a trial.", nil, nil},
		{"phases.warmup", "Load before the measure phase. On average: its time is random, from half to one and a half of it, so that work of timers is at another place of each block.", d.Phases.Warmup.String(), between(0, maxPhase, "")},
		{"phases.measure", "Measure phase, at least 1s.", d.Phases.Measure.String(), between(minMeasure, maxPhase, "")},
		{"phases.soak", "A long measure phase, such as 1h, in place of phases.measure. Reports then have trends: how memory, CPU per request and response times change in its second half. Blocks: 1 by default.", nil, between(minSoak, maxPhase, "")},
		{"phases.drain", "Time for requests in flight at the end.", d.Phases.Drain.String(), between(0, maxPhase, "")},
		{"phases.idle", "When application and data plane count as idle, on kubernetes.", nil, nil},
		{"phases.idle.cpu", "Maximum cores when idle.", d.Phases.Idle.CPU, between(0, float64(maxCPU), "cores; 0.1 is 100 millicores")},
		{"phases.idle.memory", "Maximum memory when idle; 0: any.", 0, between(0, maxMemory, "")},
		{"phases.idle.deadline", "Maximum wait for idle; then the trial continues with a warning.", d.Phases.Idle.Deadline.String(), between(0, maxPhase, "")},
		{"phases.prewarm", "Maximum load before the warm-up. Each program of the user is loaded before its first trial until the CPU of a request no longer falls. If it began 1.25 times as high, as with a JIT compiler, all deployments are loaded so. 0: measured cold.", d.Phases.Prewarm.String(), between(0, maxPhase, "")},
		{"blocks", "Repetitions of every treatment: a number, or min, max and until.", d.Blocks.Max, blocks{between(1, MaxTrials, blocksHint)}},
		{"blocks.min", "Minimum number of blocks.", d.Blocks.Min, between(1, MaxTrials, blocksHint)},
		{"blocks.max", "Maximum number of blocks.", d.Blocks.Max, between(1, MaxTrials, blocksHint)},
		{"blocks.until", "Interval width at which the run stops: metric and half width, such as " + precisionExample + ". Or `valid`: the run stops at min blocks without an invalid trial.", nil, nil},
		{"order", "Order of the trials. balanced: random, each treatment in each position and after each other one equally often. random: random within each block. by-mesh: one batch per mesh within a block. once: one batch per mesh in the run, so mesh and time are confounded. interleaved: the treatments of a comparison at once, in time slices. Default: random in a file with a seed; else interleaved on platform local where nothing forbids it, or balanced.", nil, enum(orders...)},
		{"slices", "Time slices of order interleaved.", nil, nil},
		{"slices.length", "Length of a slice, in which one treatment has the load. With phases.soak: 1s by default.", defaultSlices.Length.String(), between(minSlice, maxSlice, "100ms to 250ms narrow intervals most")},
		{"slices.guard", "End of a slice without load: answers arrive, and counters are read. Default: 10ms, at most a tenth of the length.", nil, nil},
		{"seed", "Seed of order and arrivals. Default: drawn, printed and recorded.", nil, between[uint64](0, maxSeed, "")},
		{"baseline", "Levels to compare with; other factors keep the treatment's level. Default: {mesh: none}.", nil, nil},
	}, factorRows("baseline."), []fieldRow{
		{"control", "Runs the baseline twice in every block, to measure the noise.", false, nil},
		{"controlAll", "Runs every treatment twice in every block: the noise of a mesh is larger than that of none.", false, nil},
		{"reference", "Runs the reference proxy beside each baseline in every block, and reports costs in its weight too (platform local, HTTP/1.1).", false, nil},
		{"oneAtATime", "Leaves out treatments that differ from their baseline in two of its factors or more. The other factors stay a product.", false, nil},
		{"ladder", "Reports what each level of factors.mesh adds to the level before it, the baseline first, as tare report --ladder does.", false, nil},
		{"confidence", "Confidence of intervals.", d.Confidence, span[float64]{0.5, 1, true, true, "write 0.95 for intervals of 95 %"}},
		{"equivalence", "Ratio margin that counts as the same, such as 2%.", nil, nil},
		{"validity", "Limits for valid trials.", nil, nil},
		{"validity.errorRatio", "Maximum share of failed requests.", d.Validity.ErrorRatio, ratio},
		{"validity.rateShortfall", "Maximum missing share of the rate.", d.Validity.RateShortfall, ratio},
		{"validity.unattributed", "Maximum share of CPU without attribution rule.", d.Validity.Unattributed, ratio},
		{"validity.generatorCPU", "Maximum share of a core for a generator thread.", d.Validity.GeneratorCPU, ratio},
		{"validity.lateness", "Maximum p99 lateness; 0: 1ms or a tenth of the median response time, the larger one.", 0, between(0, maxTimeout, "")},
	}, batchRows(), decideRows(), changeRows(), backgroundRows(), startRows(), faultRows())
}

// factorRows has a row for every factor, or for every level of the baseline.
func factorRows(under string) []fieldRow {
	var all []fieldRow
	for _, f := range Table {
		d := fieldRow{path: under + f.Name, text: "A level of factors." + f.Name + "."}
		if under == "factors." {
			d.text = f.Text
			if f.written != nil {
				d.otherwise = []any{f.written}
			}
		}
		all = append(all, d)
		if f.Name == "rate" {
			list := map[bool]string{true: "[]"}[under == "factors."]
			all = append(all, searchRows(under+f.Name+list+".")...)
		}
	}
	return all
}

func resourceRows(under string) []fieldRow {
	cpu, memory := between(0.001, maxCores, "CPUs; 250m is a quarter of one"), between(minMemory, maxMemory, "bytes, or with a unit: 64MiB")
	return []fieldRow{
		{under + "requests", "Resource requests.", nil, nil},
		{under + "requests.cpu", "Cores: 0.25, or 250m.", nil, cpu},
		{under + "requests.memory", "Memory: 64MiB.", nil, memory},
		{under + "limits", "Resource limits. A CPU limit shows as latency.", nil, nil},
		{under + "limits.cpu", "Cores.", nil, cpu},
		{under + "limits.memory", "Memory; a container above it is OOMKilled.", nil, memory},
	}
}

func resourcePlanes(s *jsonschema.Schema) {
	s.PropertyNames = &jsonschema.Schema{Enum: anys(planesWithResources)}
}

func digestValues(s *jsonschema.Schema) { s.AdditionalProperties.Pattern = digestForm }

// imageForms allows the reference alone as well as the mapping.
func imageForms(s *jsonschema.Schema) {
	long := *s.AdditionalProperties
	s.AdditionalProperties = &jsonschema.Schema{Properties: long.Properties, AnyOf: []*jsonschema.Schema{
		{Type: "string"}, {Type: "object", Required: []string{"image"}}}}
}

func pinning(s *jsonschema.Schema) {
	s.AdditionalProperties.Pattern = `^[0-9]+(-[0-9]+(:[0-9]+)?)?( *, *[0-9]+(-[0-9]+(:[0-9]+)?)?)*$`
	s.PropertyNames = &jsonschema.Schema{Enum: anys(planesToPin)}
}

// eachValue calls use with each value below v at the steps of a row's path, and with the value's place.
func eachValue(v reflect.Value, place string, steps []string, use func(place string, value any)) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() {
		return
	}
	if len(steps) == 0 {
		use(place, v.Interface())
		return
	}
	below := func(name string) string { return strings.TrimPrefix(place+"."+name, ".") }
	if steps[0] == "*" {
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			eachValue(v.MapIndex(key), below(key.String()), steps[1:], use)
		}
		return
	}
	name, list := strings.CutSuffix(steps[0], "[]")
	v, place = fieldNamed(v, name), below(name)
	if !list || !v.IsValid() {
		eachValue(v, place, steps[1:], use)
		return
	}
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	for i := range v.Len() {
		eachValue(v.Index(i), fmt.Sprintf("%s[%d]", place, i), steps[1:], use)
	}
}

// fieldNamed returns the field of a struct or mapping by its name in the file.
func fieldNamed(v reflect.Value, name string) reflect.Value {
	if v.Kind() == reflect.Map {
		return v.MapIndex(reflect.ValueOf(name))
	}
	for f, value := range v.Fields() {
		switch tag, options, _ := strings.Cut(f.Tag.Get("yaml"), ","); {
		case options == "inline":
			if inner := fieldNamed(value, name); inner.IsValid() {
				return inner
			}
		case tag == name:
			return value
		}
	}
	return reflect.Value{}
}

// bounds are the values that a field may have.
type bounds interface {
	describe(s *jsonschema.Schema)
	// check returns the fault of a value, "" for none, and what to do.
	check(value any) (message, hint string)
}

// bounded is a type that has its bounds as a part of itself, where the file has one value instead of a mapping.
type bounded interface{ bound() any }

// required are the bounds of a field that its mapping must have.
type required struct{ bounds }

func (v validation) check(place string, value any, b bounds) {
	if message, hint := b.check(value); message != "" {
		v.report(place, hint, "%s", message)
	}
}

type number interface {
	int | uint64 | float64 | Size | Duration | Cores | PerSecond
}

// span bounds a number. Open ends do not belong to it.
type span[T number] struct {
	low, high         T
	openLow, openHigh bool
	hint              string
}

func (s span[T]) check(value any) (message, hint string) {
	x, ok := value.(T)
	low, high := "between %v and", " %v"
	switch {
	case s.openLow && s.openHigh:
		low, high = "above %v and", " below %v"
	case s.openLow:
		low, high = "above %v and", " at most %v"
	}
	if !ok || x < s.low || x > s.high || s.openLow && x == s.low || s.openHigh && x == s.high {
		return fmt.Sprintf("%v is not "+low+high, value, s.low, s.high), s.hint
	}
	return "", ""
}

func between[T number](low, high T, hint string) bounds {
	return span[T]{low: low, high: high, hint: hint}
}

func (s span[T]) describe(to *jsonschema.Schema) {
	low, high := any(s.low), any(s.high)
	switch x := low.(type) {
	case Duration, Cores, PerSecond: // patterns
		return
	case Size:
		to.AnyOf = slices.Clone(to.AnyOf)
		to.AnyOf[0] = &jsonschema.Schema{Type: "integer"}
		to, low, high = to.AnyOf[0], int64(x), int64(high.(Size))
	}
	minimum, maximum := &to.Minimum, &to.Maximum
	if s.openLow {
		minimum = &to.ExclusiveMinimum
	}
	if s.openHigh {
		maximum = &to.ExclusiveMaximum
	}
	*minimum, *maximum = num(low), num(high)
}

// choice bounds a name. Without names it allows all.
type choice struct {
	what  string
	names []string
}

func oneOf(what string, names ...string) bounds { return choice{what, names} }

func (c choice) check(value any) (message, hint string) {
	switch name := fmt.Sprint(value); {
	case name == "":
		return "the name of the " + c.what + " is empty", ""
	case len(c.names) > 0 && !slices.Contains(c.names, name):
		return fmt.Sprintf("unknown %s %q", c.what, clip(name)), strict.DidYouMean(name, c.names)
	}
	return "", ""
}

func (c choice) describe(s *jsonschema.Schema) { s.Enum = anys(c.names) }

type pattern struct {
	what, hint string
	form       *regexp.Regexp
}

func (p pattern) check(value any) (message, hint string) {
	if text := fmt.Sprint(value); text != "" && !p.form.MatchString(text) {
		return fmt.Sprintf("%q is not %s", clip(text), p.what), p.hint
	}
	return "", ""
}

func (p pattern) describe(s *jsonschema.Schema) { s.Pattern = p.form.String() }

// label bounds a name that Kubernetes has too.
type label struct{}

func (label) check(value any) (message, hint string) {
	if text := fmt.Sprint(value); text != "" && !app.IsLabel(text) {
		return fmt.Sprintf("%q is not a DNS label", clip(text)), "use lower-case letters, digits and -, at most 63, beginning and ending with a letter or digit"
	}
	return "", ""
}

func (label) describe(s *jsonschema.Schema) { s.Pattern = `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$` }

// form describes a value whose bounds a type or a rule checks.
type form func(*jsonschema.Schema)

func (form) check(any) (message, hint string) { return "", "" }

func (f form) describe(s *jsonschema.Schema) { f(s) }

var ratio = between(0, 1.0, "it is a ratio: 0.01 is 1 %")

// limits describes the bounds of a number that package app checks.
func limits(low, high int64) form {
	return func(s *jsonschema.Schema) { s.Minimum, s.Maximum = num(low), num(high) }
}

// examples describes names that a user can add to.
func examples(names []string) form { return func(s *jsonschema.Schema) { s.Examples = anys(names) } }

// enum describes the names of a field that a rule checks.
func enum(names ...string) form { return func(s *jsonschema.Schema) { s.Enum = anys(names) } }

func levelList(s *jsonschema.Schema) {
	s.MinItems, s.UniqueItems = new(uint64(1)), true
}

func anys(names []string) []any { return lists.Map(names, func(n string) any { return n }) }

func num[T any](n T) json.Number { return json.Number(fmt.Sprint(n)) }

// Schema returns the JSON Schema (draft 2020-12) of the experiment file, for
// completion and checks in editors. It accepts more than [File.Validate]: a schema cannot
// bound the product of the factors, refuse cyclic calls, or compare the baseline
// with the treatments. Mesh names are examples only, since a user can write a
// definition.
func Schema(names Names) ([]byte, error) {
	s := jsonschema.Of(reflect.TypeFor[Experiment](), "yaml", func(t reflect.Type) *jsonschema.Schema {
		switch t {
		case reflect.TypeFor[Factors]():
			return factorsSchema(names, true)
		case reflect.TypeFor[Baseline]():
			return factorsSchema(names, false)
		}
		return unitSchema(t)
	})
	s.Title = "tare experiment"
	for _, d := range fieldRows(names) {
		p := property(s, d.path)
		if p == nil {
			return nil, fmt.Errorf("build schema: there is no field %s", d.path)
		}
		p.Description = d.text
		if d.otherwise != nil {
			p.Default = d.otherwise
		}
		if d.bounds != nil {
			d.bounds.describe(p)
		}
	}
	s.Required = []string{"apiVersion", "kind", "metadata", "factors"}
	property(s, "metadata").Required = []string{"name"}
	for _, path := range []string{"factors", "baseline"} {
		property(s, path).MinProperties = new(uint64(1))
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
	case reflect.TypeFor[PerSecond]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "number", Minimum: "0", Maximum: num(float64(maxBackgroundChanges))},
			{Type: "string", Pattern: `^[0-9]+(\.[0-9]+)? */s$`},
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
