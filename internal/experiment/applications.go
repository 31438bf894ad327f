package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/jsonschema"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// ApplicationVariant is a level of the factor application: a program of the user on this machine, or on a cluster the
// application of the file with changes.
type ApplicationVariant struct {
	// From names the entry whose fields this one inherits.
	From string `yaml:"from,omitempty" json:"from,omitempty"`
	// Topology is a shipped one by name, a file, or the text of a file, in place of one program.
	Topology          string `yaml:"topology,omitempty" json:"topology,omitempty"`
	app.Own           `yaml:",inline"`
	app.ObjectChanges `yaml:",inline"`
}

// ApplicationVariant returns an entry with what it inherits: fields override, variables by name and processes beside by
// their names.
func (e *Experiment) ApplicationVariant(name string) ApplicationVariant {
	var all ApplicationVariant
	for _, n := range slices.Backward(e.applicationChain(name)) {
		v := e.Applications[n]
		all.From = v.From
		all.URL, all.Dir, all.Ready = cmp.Or(v.URL, all.URL), cmp.Or(v.Dir, all.Dir), cmp.Or(v.Ready, all.Ready)
		all.TLS, all.Exchange = v.TLS || all.TLS, cmp.Or(v.Exchange, all.Exchange)
		all.Env = over(all.Env, v.Env)
		if len(v.Command) > 0 {
			all.Command = v.Command
		}
		if len(v.Prefix) > 0 {
			all.Prefix = v.Prefix
		}
		kept := slices.DeleteFunc(slices.Clone(all.Beside), func(p app.BesideProcess) bool {
			return slices.ContainsFunc(v.Beside, func(own app.BesideProcess) bool { return own.Name == p.Name })
		})
		all.Beside = append(kept, v.Beside...)
		all.ObjectChanges = v.ObjectChanges.Over(all.ObjectChanges)
	}
	return all
}

func (v ApplicationVariant) topology(name string) (app.Topology, error) {
	var t app.Topology
	var err error
	if strings.Contains(v.Topology, "\n") {
		t, err = app.Decode("applications."+name+".topology", []byte(v.Topology))
	} else {
		t, err = app.Load(v.Topology)
	}
	t.Name = name
	return t, err
}

// ApplicationChanges describes an entry that comes from another in one line: "plain with env.A=1, prefix=strace -f".
func (e *Experiment) ApplicationChanges(name string) string {
	v := e.Applications[name]
	var all fieldWords
	add := all.add
	add("command", strings.Join(v.Command, " "))
	add("url", v.URL)
	add("dir", v.Dir)
	add("ready", v.Ready)
	all.addAll("env.", v.Env)
	add("prefix", strings.Join(v.Prefix, " "))
	for _, p := range v.Beside {
		add("beside."+p.Name, strings.Join(p.Command, " "))
	}
	all = append(all, v.ObjectChanges.Words()...)
	return strings.TrimSuffix(cmp.Or(v.From, "application")+" with "+strings.Join(all, ", "), " with ")
}

// defaultBaseline is the baseline of a file without one: no mesh, the first of several programs of the user, or with a control the
// only mesh.
func (e *Experiment) defaultBaseline() Baseline {
	levels := e.applications()
	other := func(name string) bool { _, entry := e.Applications[name]; return !entry }
	switch {
	case len(levels) > 1 && len(e.meshes()) < 2 && !slices.ContainsFunc(levels, other):
		return Baseline{ApplicationFactor: levels[0]}
	case slices.Contains(e.meshes(), "none"):
		return Baseline{MeshFactor: "none"}
	case len(e.meshes()) < 2 && (e.Control || e.ControlAll): // the control is a second run of the only mesh
		return Baseline{MeshFactor: append(e.meshes(), e.DefaultLevels().Mesh)[0]}
	}
	return nil
}

func (e *Experiment) applicationChain(name string) []string {
	return chain(name, func(n string) string { return e.Applications[n].From })
}

func ownTopology(name string, own app.Own) app.Topology {
	return app.Topology{Name: name, Entry: app.OwnName, Services: []app.Service{{Name: app.OwnName, Own: own}}}
}

func (v applicationRules) variants() {
	used := v.e.applications()
	for _, name := range sortedKeys(v.e.Applications) {
		path := "applications." + name
		if v.variantName(path, name); !v.doc.Sound(path) {
			continue
		}
		if v.doc.Has(path+".topology") || v.e.Applications[name].Topology != "" {
			v.variantTopology(path, name)
			continue
		}
		own := v.e.ApplicationVariant(name).Own
		if v.objectChanges(path, name); !v.local() {
			continue
		}
		switch {
		case !own.IsOwn():
			v.report(path, "add command: [PROGRAM, ARGUMENT, …], or from: an entry with one", "it has no command")
		case v.e.Applications[name].From == "" || v.doc.Sound("applications."+v.e.Applications[name].From):
			ownTopology(name, own).Validate(inEntry{v.doc, path}, path+".")
		}
	}
	if replicas := LevelsOf[int](v.e.Factors, ReplicasFactor); slices.ContainsFunc(replicas, func(n int) bool { return n > 1 }) {
		for _, name := range used {
			if v.e.ApplicationVariant(name).URL != "" {
				v.report("factors.replicas", "write replicas: 1", "%s is one running program", name)
			}
		}
	}
}

func (v applicationRules) variantTopology(path, name string) {
	switch entry := v.e.Applications[name]; {
	case !v.doc.Sound(path + ".topology"):
		return
	case entry.From != "" || entry.IsOwn() || len(entry.Env)+len(entry.Prefix)+len(entry.Beside) > 0 || !entry.ObjectChanges.IsZero():
		v.report(path, "write the programs of the services into the topology", "a topology has no further fields")
		return
	case v.e.foreign():
		v.report(path, "remove one of the two", "a topology takes the place of the objects of application")
		return
	}
	t, err := v.e.Applications[name].topology(name)
	switch {
	case err != nil:
		v.report(path+".topology", strict.DidYouMean(v.e.Applications[name].Topology, v.names.topologies()), "%v", err)
	case t.Foreign():
		v.report(path+".topology", "write it in application", "a topology of others' objects is not a level")
	}
}

// objectChanges checks an entry on a cluster, and that no other changes objects.
func (v applicationRules) objectChanges(path, name string) {
	entry := v.e.Applications[name]
	switch {
	case v.local() && !entry.ObjectChanges.IsZero():
		v.report(path, "write command, env, prefix or beside, or platform: {kind: kubernetes}", "images, values and patches change objects of a cluster, and the platform is local")
		return
	case v.local():
		return
	case entry.IsOwn() || len(entry.Env)+len(entry.Prefix)+len(entry.Beside) > 0 || entry.Dir != "" || entry.Ready != "":
		v.report(path, "write images, values or patches, or platform: {kind: local}", "one's own program runs on this machine, and the platform is %s", v.e.Platform.Kind)
		return
	case !v.e.foreign():
		v.report(path, "name the objects: application: {manifests: [./k8s], entry: web}, a namespace or a chart", "a variant on a cluster changes the objects of application, and there are none")
		return
	case v.e.Application.InPlace && !entry.ObjectChanges.IsZero():
		v.report(path, "remove application.inPlace: trials measure a copy", "an application in place is not changed")
		return
	case entry.Values != "" && v.e.Application.Chart == nil:
		v.report(path+".values", "write patches", "only a chart has values")
	}
	entry.Check(func(field, hint, message string) { v.report(path+"."+field, hint, "%s", message) })
}

// variantName checks the name of an entry, and of the entry it comes from.
func (v applicationRules) variantName(path, name string) {
	from := v.e.Applications[name].From
	switch {
	case slices.Contains(v.names.topologies(), name):
		v.report(path, "choose another name", "there is a topology %q already", name)
	case !variantName.MatchString(name):
		v.report(path, variantNameHint, "%q is not a name of an application", clip(name))
	case from == "":
	case v.e.applicationChain(name) == nil:
		v.report(path+".from", "name another entry of applications", "%q comes from itself", clip(name))
	default:
		v.check(path+".from", from, oneOf("application", sortedKeys(v.e.Applications)...))
	}
}

// inEntry reports mistakes in the only service of an application, or of an entry of applications, where its fields are.
type inEntry struct {
	app.Reporter
	path string
}

func (r inEntry) Report(path, message, hint string) {
	r.Reporter.Report(strings.Replace(path, r.path+".services[0]", r.path, 1), message, hint)
}

func (r inEntry) Sound(path string) bool {
	return r.Reporter.Sound(strings.Replace(path, r.path+".services[0]", r.path, 1))
}

// applicationVariantRows has a row for every field, and "*" stands for a name.
func applicationVariantRows() []fieldRow {
	return slices.Concat([]fieldRow{
		{"applications", "Applications by name, as levels of factors.application. On this machine: one's own programs, such as builds, or one program and its instrumentation. On a cluster: the objects of application with changes.", nil, nil},
		{"applications.*.from", "Another entry, whose fields this one inherits and overrides: env, beside and images by name. Its patches come first.", nil, nil},
		{"applications.*.topology", "Topology in place of a command: a shipped name, a file relative to this one, or its text.", nil, nil},
	}, ownRows("applications.*."), []fieldRow{
		{"applications.*.images", "Images by container, on a cluster.", nil, nil},
		{"applications.*.values", "Values laid over those of application.chart, as YAML text.", nil, nil},
		{"applications.*.patches", "Patches of the objects, on a cluster. Containers that they add count as plane data, and are verified in every pod.", nil, form(levelList)},
		{"applications.*.patches[].target", "Objects to change; default: the one that the patch names.", nil, nil},
		{"applications.*.patches[].target.kind", "Kind, such as Deployment; default: all.", nil, nil},
		{"applications.*.patches[].target.name", "Name, or a regular expression for all of it; default: all.", nil, nil},
		{"applications.*.patches[].patch", "Strategic merge patch or JSON patch, as text.", nil, nil},
	})
}

func ownRows(under string) []fieldRow {
	return slices.Concat([]fieldRow{
		{under + "command", "One's own program with its arguments, on this machine: the only service, app. ${port} is its port, also in the variable PORT.", nil, nil},
		{under + "url", "Address of a running program, instead of a command: http://127.0.0.1:8080, or https.", nil, nil},
		{under + "env", "Environment variables of the command, added to those of tare.", nil, nil},
		{under + "dir", "Working directory of the command; default: the directory of the file.", nil, nil},
		{under + "ready", "Path that is answered with 2xx or 3xx once the program serves; default: any answer at /.", nil, nil},
	}, besideRows(under))
}

// besideRows are the fields of a program of the user that have one meaning everywhere.
func besideRows(under string) []fieldRow {
	return []fieldRow{
		{under + "tls", "The command speaks TLS itself, with any certificate: sidecars forward its connections as tcp.", nil, nil},
		{under + "exchange", "Request of a program with protocol tcp.", nil, nil},
		{under + "exchange.send", "Bytes of every request, as text.", nil, nil},
		{under + "exchange.expect", "Its whole answer, as text, or with until its beginning. Any other is an error.", nil, nil},
		{under + "exchange.until", "Bytes that end the answer, as text, for answers that differ.", nil, nil},
		{under + "exchange.opening", "Request and answer before the first request of each connection, such as a login.", nil, nil},
		{under + "exchange.opening.send", "As exchange.send.", nil, nil},
		{under + "exchange.opening.expect", "As exchange.expect.", nil, nil},
		{under + "exchange.opening.until", "As exchange.until.", nil, nil},
		{under + "prefix", "Words before the command: a program that starts it, such as [opentelemetry-instrument].", nil, nil},
		{under + "beside", "Processes beside the program, which start before it and end with the trial. They count as plane data.", nil, nil},
		{under + "beside[].name", "DNS label. ${NAME.port}, ${NAME.host} and ${NAME.url} are its address, in the program's command and env.", nil, form(label{}.describe)},
		{under + "beside[].command", "Program and arguments. ${port} is its port, ${app.port} the program's. With ${app.pid} it starts when the program answers, such as a profiler that attaches.", nil, nil},
		{under + "beside[].env", "Environment variables, added to those of tare.", nil, nil},
	}
}

type applicationRules struct{ validation }

func (v applicationRules) validate() {
	if v.doc.Has("factors.application") && (v.local() || len(v.e.Applications) == 0 || !v.e.foreign()) {
		v.conflicts()
		return
	}
	inline := len(v.e.Application.Services) > 0 || v.doc.Has("application.services")
	v.source()
	switch {
	case v.e.Application.Source.IsSet() && !inline:
		return // source has the reason
	case v.e.Application.IsOwn():
		v.program()
	case inline && v.e.Application.Topology != "":
		v.report("application.topology", "remove one of the two", "both a topology and services are written")
	case inline:
		v.e.inline().Validate(v.doc, "application.")
	default:
		v.topology()
	}
	v.onlyOwn()
	v.chart(inline)
	v.own()
}

func (v applicationRules) program() {
	refuse(v.validation, "application.", []string{"topology", "services", "chart", "manifests", "namespace", "entry"},
		"remove it, or write command and url into the services", "the application is one program: application.command or application.url")
	v.e.inline().Validate(inEntry{v.doc, "application"}, "application.")
}

// onlyOwn reports fields of a program without its command.
func (v applicationRules) onlyOwn() {
	if !v.e.Application.IsOwn() {
		refuse(v.validation, "application.", []string{"env", "dir", "ready", "tls", "prefix", "beside"}, "add command: [PROGRAM, ARGUMENT, …], or remove it", "it needs a command")
	}
}

// own checks what programs of the user need of the experiment.
func (v applicationRules) own() {
	t := v.e.inline()
	replicas := LevelsOf[int](v.e.Factors, "replicas")
	for i, s := range t.Services {
		if !s.IsOwn() {
			continue
		}
		path := fmt.Sprintf("application.services[%d]", i)
		if v.e.Application.IsOwn() {
			path = "application"
		}
		v.onThisMachine(path)
		for j, n := range replicas {
			if n > 1 && (s.URL != "" || len(s.Calls) > 0) {
				v.report(fmt.Sprintf("factors.replicas[%d]", j), "remove it, or write replicas: 1", "%s", ownReplicas(s))
			}
		}
		for _, c := range s.Calls {
			if callee, ok := t.Service(c.Service); ok && callee.Replicas > 1 {
				v.report(path, "write replicas: 1 at "+callee.Name, "%s", ownReplicas(s))
			}
		}
	}
}

// onThisMachine reports a program of the user on a cluster.
func (v applicationRules) onThisMachine(path string) {
	if !v.local() {
		v.report(path, "write platform: {kind: local}", "one's own program runs on this machine, and the platform is %s", v.e.Platform.Kind)
	}
}

// ownReplicas is the reason why a service or its callees cannot have several replicas.
func ownReplicas(s app.Service) string {
	if s.URL != "" {
		return s.Name + " is one running program"
	}
	return s.Name + " has one address for each service that it calls, so without a mesh it would call one replica only"
}

// conflicts reports an application beside the factor that selects it.
func (v applicationRules) conflicts() {
	refuse(v.validation, "application.", []string{"topology", "services", "entry", "chart", "manifests", "namespace", "command", "url"},
		"remove one of the two", "factors.application selects the application")
}

// topology checks that the named topology exists. The services of a file are in the experiment once it was read.
func (v applicationRules) topology() {
	name := v.e.Application.Topology
	if !v.doc.Sound("application.topology") {
		return
	}
	if app.IsFile(name) {
		v.report("application.topology", "", "a recorded experiment has the services themselves")
		return
	}
	t, err := app.Load(name)
	if err != nil {
		v.report("application.topology", strict.DidYouMean(name, v.names.topologies()), "unknown topology %q", clip(name))
		return
	}
	if entry := v.e.Application.Entry; entry != "" {
		if _, ok := t.Service(entry); !ok {
			v.report("application.entry", "", "the topology has no service %q", clip(entry))
		}
	}
}

// chart checks that the platform can install the chart.
func (v applicationRules) chart(inline bool) {
	c := v.e.Application.Chart
	switch {
	case c == nil:
		return
	case v.local():
		v.report("application", "write platform: {kind: kubernetes}", "a chart needs a cluster, and the platform is local")
	case !inline && v.doc.Has("application.chart"):
		v.report("application.chart", "list the names of the chart's Services in application.services", "the services of the chart are missing")
	}
	for i, n := range LevelsOf[int](v.e.Factors, "replicas") {
		if n > 1 && c.Replicas == "" {
			v.report("factors.replicas", "write the name of the chart's value in application.chart.replicas", "level %d: the chart has no value for %d replicas", i, n)
		}
	}
}

func (v applicationRules) source() {
	a := v.e.Application
	if !a.Source.IsSet() {
		return
	}
	at := a.Source.Field()
	for _, field := range []string{"topology", "chart", "command", "url"} {
		if path := "application." + field; v.doc.Has(path) {
			v.report(path, "remove one of the two", "both %s and %s are written", at, path)
		}
	}
	switch {
	case len(a.Manifests) > 0 && a.Namespace != "":
		v.report("application.namespace", "remove one of the two", "both manifests and a namespace are written")
	case v.local():
		v.report(at, "write platform: {kind: kubernetes}", "Kubernetes objects need a cluster, and the platform is local")
	}
	v.inPlace()
	if slices.Contains(a.Manifests, "") {
		v.report(at, "name a file or a directory", "a path is empty")
	}
	for i, n := range LevelsOf[int](v.e.Factors, "replicas") {
		if n > 1 {
			v.report(fmt.Sprintf("factors.replicas[%d]", i), "remove it", "the objects have the numbers of replicas")
		}
	}
	v.entryOfSource()
}

// inPlace refuses settings that an application of others must not suffer, or that tare could not put back.
func (v applicationRules) inPlace() {
	const at = "application.inPlace"
	switch {
	case !v.e.Application.InPlace:
	case v.e.Application.Namespace == "":
		v.report(at, "write namespace: NAME", "only an application that runs in a namespace can be measured in place")
	case v.e.Outside() || v.e.Gateway():
		v.report(at, "remove load.from and load.entry", "a load from outside needs other Services and routes than those of the application")
	case len(v.e.Faults) > 0:
		v.report(at, "remove the faults, or inPlace", "faults would hit an application that others use")
	}
}

// entryOfSource checks that the load has a Service to go to.
func (v applicationRules) entryOfSource() {
	a := v.e.Application
	names := lists.Map(a.Services, func(s app.Service) string { return s.Name })
	entry := slices.IndexFunc(a.Services, func(s app.Service) bool { return s.Name == a.Entry })
	switch {
	case a.Entry == "" && a.Objects == nil && len(names) == 0: // unknown here
	case a.Entry == "":
		v.report("application.entry", "write entry: NAME, the Service that receives the load", "there are several Services or none: %s", clip(strings.Join(names, ", ")))
	case entry < 0:
		v.report("application.entry", strict.DidYouMean(a.Entry, names), "there is no Service %q with pods and a TCP port", clip(a.Entry))
	case a.Services[entry].Protocol == app.TCP:
		v.report("application.entry", "choose a Service of HTTP or gRPC; if it is one, write services: [{name: "+a.Entry+", protocol: http1}]",
			"the port of Service %s is of plain TCP, which the load does not know", clip(a.Entry))
	}
}

// ErrNoObjects reports that the objects of an application were not read.
var ErrNoObjects = errors.New("the objects of the application were not read")

// Topologies returns the applications under test: one for each level of the factor, or the only one without it.
func (e *Experiment) Topologies() ([]app.Topology, error) {
	names := e.applications()
	if len(names) == 0 {
		names = []string{""}
	}
	var all []app.Topology
	var failed []error
	for _, name := range names {
		t, err := e.TopologyOf(Levels{Application: name})
		all = append(all, t)
		failed = append(failed, err)
	}
	return all, errors.Join(failed...)
}

// TopologyOf returns the application under test of a treatment, complete. It cannot fail for a valid experiment.
func (e *Experiment) TopologyOf(l Levels) (app.Topology, error) {
	if v, entry := e.Applications[l.Application]; entry && v.Topology != "" {
		return v.topology(l.Application)
	} else if entry && e.foreign() {
		t, err := e.Topology()
		t.Changes = e.ApplicationVariant(l.Application).ObjectChanges
		return t, err
	} else if entry {
		return ownTopology(l.Application, e.ApplicationVariant(l.Application).Own), nil
	}
	if l.Application != "" {
		return app.Load(l.Application)
	}
	return e.Topology()
}

// Topology returns the experiment's application if it is not a factor.
func (e *Experiment) Topology() (app.Topology, error) {
	if len(e.Application.Services) == 0 && !e.Application.IsOwn() && !e.Application.Source.IsSet() {
		t, err := app.Load(e.Application.Topology)
		if err == nil && e.Application.Entry != "" {
			t.Entry = e.Application.Entry
		}
		return t, err
	}
	return e.inline().Default(), nil
}

// foreign reports whether others' objects run the services.
func (e *Experiment) foreign() bool {
	return e.Application.Chart != nil || e.Application.Source.IsSet()
}

func (e *Experiment) applications() []string { return LevelsOf[string](e.Factors, ApplicationFactor) }

func (e *Experiment) meshes() []string { return LevelsOf[string](e.Factors, "mesh") }

// protocols lists the levels of the factor protocol, or its default.
func (e *Experiment) protocols() []string {
	return levelsOr(e, "protocol", DefaultLevels().Protocol)
}

// otherGenerator returns a load generator of the experiment that is not tare's own, or "".
func otherGenerator(e *Experiment) string {
	all := append(LevelsOf[string](e.Factors, "generator"), e.Load.Generator)
	other, _ := lists.First(all, func(name string) bool { return name != "tare" })
	return other
}

// exchanges reports whether a program that receives the load has its request.
func exchanges(e *Experiment) bool {
	all, _ := e.Topologies() // errors are reported elsewhere
	return slices.ContainsFunc(all, func(t app.Topology) bool {
		entry, ok := t.Service(t.EntryName())
		return ok && entry.Exchange.Send != ""
	})
}

func serviceRows(names Names) []fieldRow {
	const service, call = "application.services[].", "application.services[].calls[]."
	return slices.Concat([]fieldRow{
		{service + "name", "DNS label.", nil, form(label{}.describe)},
		{service + "replicas", "Replicas; 0: the factor replicas.", 0, serviceLimit("replicas")},
		{service + "protocol", "Protocol it speaks; default: the factor protocol.", nil, enum(app.Protocols()...)},
		{service + "port", "Port of its Service, in a chart, manifests or a namespace; default: found, or chart.port.", 0, limits(0, 65535)},
		{service + "command", "One's own program with its arguments, on this machine. ${port}, ${host} and, of a service in calls, ${api.url}, ${api.host} and ${api.port} are addresses.", nil, nil},
		{service + "url", "Address of a running program, instead of a command: http://127.0.0.1:8080.", nil, nil},
		{service + "env", "Environment variables of the command. It also has PORT and, of a service api in calls, API_URL, API_HOST and API_PORT.", nil, nil},
		{service + "dir", "Working directory of the command; default: the directory of the file.", nil, nil},
		{service + "ready", "Path that is answered with 2xx or 3xx once the program serves; default: any answer at /.", nil, nil},
	}, besideRows(service), []fieldRow{
		{service + "responseSize", "Bytes of the answer: a size, or a distribution such as uniform(1KiB, 4KiB); default: the factor responseSize.", nil, nil},
		{service + "status", "Status of every answer.", 200, serviceLimit("status")},
		{service + "time", "Wait before the answer: a time, or a distribution such as lognormal(10ms, 0.5).", nil, nil},
		{service + "delay", "Additional wait.", nil, nil},
		{service + "cpu", "CPU time to burn for each request, at most 10s.", nil, nil},
		{service + "memory", "Memory to hold.", nil, nil},
		{service + "errors", "Deliberate failures.", nil, nil},
		{service + "errors.ratio", "Share of answers.", nil, serviceLimit("errors.ratio")},
		{service + "errors.status", "Status of these answers.", 500, serviceLimit("errors.status")},
		{service + "rateLimit", "Served requests per second, others get 429; 0: no limit.", 0, serviceLimit("rateLimit")},
		{service + "failedCallStatus", "Status after a failed call.", 502, serviceLimit("failedCallStatus")},
		{service + "redirects", "Paths answered with 301, and their targets.", nil, nil},
		{service + "calls", "Calls before the answer, in order.", nil, nil},
		{call + "service", "Service that is called; left out: a step that only waits.", nil, nil},
		{call + "protocol", "Protocol of the call; left out: the callee's.", nil, enum(app.HTTP1, app.HTTP2, app.GRPC)},
		{call + "path", "Path asked for over HTTP.", "/", form(func(s *jsonschema.Schema) { s.Pattern = "^/" })},
		{call + "alongside", "Runs in parallel with the call before.", false, nil},
		{call + "wait", "Wait before the call: a time or distribution.", nil, nil},
		{call + "probability", "Probability of the call.", 1, serviceLimit("probability")},
		{call + "requestSize", "Bytes of the body: a size or distribution.", nil, nil},
		{call + "headers", "Additional headers; trace headers are forwarded anyway.", nil, nil},
		{call + "timeout", "Timeout of an attempt; 0: none.", 0, nil},
		{call + "retries", "Retries of a failed call.", 0, serviceLimit("retries")},
		{call + "newConnection", "Opens a connection for each call.", false, nil},
		{call + "followRedirects", "Follows redirects; otherwise a redirect is a failed call.", false, nil},
	})
}

// spreadSchema is the form of a distribution.
func spreadSchema(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[app.Times]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: spreadPattern(timeForm)}, {Type: "integer", Enum: []any{0}}}}
	case reflect.TypeFor[app.Sizes]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "string", Pattern: spreadPattern(sizeForm)}, {Type: "integer", Minimum: "0", Maximum: num(app.MaxSize)}}}
	}
	return nil
}

// serviceLimit describes the bounds that package app checks.
func serviceLimit(field string) form {
	l := app.Limits[field]
	return func(s *jsonschema.Schema) {
		if l.OrZero {
			s.AnyOf = []*jsonschema.Schema{{Type: "integer", Minimum: num(l.Low), Maximum: num(l.High)}, {Type: "integer", Enum: []any{0}}}
			s.Type = ""
			return
		}
		s.Minimum, s.Maximum = num(l.Low), num(l.High)
	}
}

// The forms in which times, sizes and their distributions are written.
const (
	timeForm = `[+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+|0`
	sizeForm = `[0-9]+(\.[0-9]+)? ?(B|kB|KB|MB|GB|KiB|MiB|GiB)?`
)

// spreadPattern is the form of a distribution over quantities of a form.
func spreadPattern(quantity string) string {
	q := ` *(` + quantity + `) *`
	weighed := q + `(: *[0-9.eE+-]+ *)?`
	return `^(` + quantity + `|uniform\(` + q + `,` + q + `\)|exponential\(` + q + `\)|lognormal\(` + q + `, *[0-9.eE+-]+ *\)|buckets\(` +
		weighed + `(,` + weighed + `)*\))$`
}
