package experiment

import (
	"cmp"
	"maps"
	"slices"
	"strings"

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
	var all []string
	add := func(field, value string) {
		if value != "" {
			all = append(all, field+"="+value)
		}
	}
	add("command", strings.Join(v.Command, " "))
	add("url", v.URL)
	add("dir", v.Dir)
	add("ready", v.Ready)
	for _, key := range slices.Sorted(maps.Keys(v.Env)) {
		add("env."+key, v.Env[key])
	}
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
