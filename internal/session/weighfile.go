package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/shlex"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Phases of tare weigh on a cluster, where each trial is deployed alone.
const (
	weighClusterWarmup  = 5 * time.Second
	weighClusterMeasure = 20 * time.Second
	weighClusterRate    = 50
)

func (o Weigh) fileOnCluster(args []string) (*weighFile, error) {
	switch {
	case o.InPlace && o.Namespace == "":
		return nil, hint.Usage(errors.New("--in-place without --namespace"), "name the namespace where the application runs")
	case o.Yes && !o.InPlace:
		return nil, hint.Usage(errors.New("--yes without --in-place"), "only --in-place asks for confirmation")
	case len(args) > 0 || o.URL != "":
		return nil, hint.Usage(errors.New("both a program and an application on a cluster"), "remove one of the two")
	case o.Namespace != "" && len(o.Manifests) > 0:
		return nil, hint.Usage(errors.New("both --namespace and --manifests"), "remove one of the two")
	case len(o.Sidecars) > 0:
		return nil, hint.Usage(errors.New("--sidecar is for a program on this machine"), "name a mesh of the cluster with --mesh")
	case o.changesProgram():
		return nil, hint.Usage(errors.New("--env, --prefix and --beside are for a program on this machine"), "on a cluster write an experiment file, whose applications have patches, images or values")
	case o.TLS:
		return nil, hint.Usage(errors.New("--tls is for a program on this machine"), "on a cluster, name a port of plain HTTP with --entry")
	case o.Ready != "":
		return nil, hint.Usage(errors.New("--ready is for a program on this machine"), "pods have readiness probes of their own")
	case !(o.Rate >= 0) || math.IsInf(o.Rate, 0): // NaN is neither
		return nil, hint.Usage(fmt.Errorf("--rate is %v", o.Rate), "leave it out for the default")
	case slices.Equal(o.Meshes, []string{"none"}):
		return nil, hint.Usage(errors.New("--mesh none is the baseline"), "name the mesh to compare with it, such as istio")
	}
	w := &weighFile{APIVersion: experiment.APIVersion, Kind: experiment.Kind, Blocks: repeated(minWeighBlocks), Control: true, Meshes: map[string]weighMesh{},
		Platform:    weighPlatform{Kind: mesh.OnKubernetes, Kubeconfig: o.Kubeconfig, Context: o.Context, Image: o.Image},
		Application: weighApplication{Namespace: o.Namespace, InPlace: o.InPlace, Entry: o.Entry},
		Phases:      weighPhases{Warmup: experiment.Duration(weighClusterWarmup), Measure: experiment.Duration(weighClusterMeasure), Drain: experiment.Duration(weighDrain)},
		Factors:     weighFactors{Mesh: []string{"none"}, Rate: []float64{cmp.Or(o.Rate, weighClusterRate)}, Connections: []int{o.Connections}}}
	if o.InUse {
		w.Platform.InUse = "allow"
	}
	for _, path := range o.Manifests {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", path, err)
		}
		w.Application.Manifests = append(w.Application.Manifests, abs)
	}
	if o.Protocol != app.HTTP1 {
		w.Factors.Protocol = []string{o.Protocol}
	}
	var invalid error
	w.Load, w.Factors.Route, invalid = o.load(o.Protocol)
	if err := errors.Join(invalid, w.addMeshes(o.Meshes)); err != nil {
		return nil, err
	}
	if err := w.choose(o); err != nil {
		return nil, err
	}
	name := cmp.Or(o.Namespace, o.Entry, "manifests")
	w.Metadata.Name = label("weigh-" + name)
	return w, nil
}

func (w *weighFile) choose(o Weigh) error {
	m := weighMesh{Version: o.Version, Options: map[string]string{}}
	if o.Charts != "" {
		abs, err := filepath.Abs(o.Charts)
		if err != nil {
			return fmt.Errorf("find %s: %w", o.Charts, err)
		}
		m.Charts = abs
	}
	for _, text := range o.Options {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return hint.Usage(fmt.Errorf("--option %s is not name=value", text), "`tare list options` prints the options of each mesh")
		}
		m.Options[name] = value
	}
	if m.Version == "" && m.Charts == "" && len(m.Options) == 0 {
		return nil
	}
	for _, name := range w.Factors.Mesh {
		of := w.Meshes[name]
		if name == "none" || of.Sidecar != nil || of.Gateway != nil && of.From == "" {
			continue
		}
		of.Version, of.Charts = m.Version, m.Charts
		if of.Options == nil {
			of.Options = map[string]string{}
		}
		maps.Copy(of.Options, m.Options)
		w.Meshes[name] = of
	}
	return nil
}

// addVariant makes the application two programs: the program as it is, and with all that the options change.
func (w *weighFile) addVariant(o Weigh) error {
	if !o.changesProgram() {
		return nil
	}
	v := experiment.ApplicationVariant{From: plainVariant, Own: app.Own{Env: map[string]string{}}}
	var parts []string
	if o.Prefix != "" {
		words, err := shellWords("--prefix", o.Prefix)
		if err != nil {
			return err
		}
		v.Prefix, parts = words, append(parts, programName(words, "prefix"))
	}
	for _, text := range o.Beside {
		words, err := shellWords("--beside", text)
		if err != nil {
			return err
		}
		p := app.BesideProcess{Name: freeName(programName(words, "beside"), func(name string) bool {
			return app.ReservedBeside(name) || slices.ContainsFunc(v.Beside, func(o app.BesideProcess) bool { return o.Name == name })
		}), Command: words}
		v.Beside, parts = append(v.Beside, p), append(parts, p.Name)
	}
	for _, text := range o.Env {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return hint.Usage(fmt.Errorf("--env %q is not NAME=value", text), "write --env NODE_OPTIONS='--require ./otel.js'")
		}
		v.Env[name], parts = addressMark.ReplaceAllString(value, "$1$${$2}"), append(parts, label(name))
	}
	name := freeName(label(strings.Join(parts, "-")), func(name string) bool {
		return name == "" || name == plainVariant || slices.Contains(app.Names(), name)
	})
	w.Applications = map[string]experiment.ApplicationVariant{plainVariant: {Own: w.Application.Own}, name: v}
	w.Application, w.Factors.Application, w.Baseline = weighApplication{}, []string{plainVariant, name}, map[string]string{experiment.ApplicationFactor: plainVariant}
	return nil
}

// plainVariant is the program as the command line has it, beside a variant.
const plainVariant = "plain"

// changesProgram reports whether the program is measured against itself with a change.
func (o Weigh) changesProgram() bool { return len(o.Env) > 0 || o.Prefix != "" || len(o.Beside) > 0 }

// addressMark is an address in a text for a process beside a program, or for the program beside it, as portMark.
var addressMark = regexp.MustCompile(`(^|[^$])\{((?:[a-z0-9-]+\.)?(?:port|host)|[a-z0-9-]+\.(?:url|pid))\}`)

// shellWords splits the text of a flag as a shell does, and marks its addresses.
func shellWords(flag, text string) ([]string, error) {
	words, err := shlex.Split(text)
	switch {
	case err != nil:
		return nil, hint.Usage(fmt.Errorf("%s %q: %w", flag, text, err), "quote as in a shell; no shell is started")
	case len(words) == 0:
		return nil, hint.Usage(errors.New(flag+" is empty"), "write a program with its arguments")
	}
	if err := knownFields(flag, words, programFields, false); err != nil {
		return nil, err
	}
	for i, word := range words {
		words[i] = addressMark.ReplaceAllString(word, "$1$${$2}")
	}
	return words, nil
}

// freeName is a name, or with the next number that makes it free.
func freeName(name string, taken func(string) bool) string {
	free := name
	for n := 2; taken(free); n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	return free
}

// weighLoad is the field load of a file that flags describe.
type weighLoad struct {
	Headers  map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	Requests []weighRequest    `yaml:"requests,omitempty" json:"requests,omitempty"`
}

type weighRequest struct {
	Method string          `yaml:"method,omitempty" json:"method,omitempty"`
	Path   string          `yaml:"path,omitempty" json:"path,omitempty"`
	Body   experiment.Body `yaml:"body,omitempty" json:"body,omitempty"`
}

// Request is the request that flags describe: of every treatment the same.
type Request struct {
	Path    string // with a query, or the gRPC method
	Method  string
	Headers []string
	Body    []byte
	Expect  string // protocol tcp: the whole answer
}

// exchange is the request of protocol tcp.
func (r Request) exchange() app.Exchange {
	if r.Expect == "" {
		return app.Exchange{}
	}
	return app.Exchange{Send: string(r.Body), Expect: r.Expect}
}

// load returns the field load, and the level of the factor route for a request that is only a path.
func (r Request) load(protocol string) (l weighLoad, route []string, err error) {
	l.Headers = map[string]string{}
	for _, line := range r.Headers {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return l, nil, hint.Usage(fmt.Errorf("--header %q is not of the form Name: value", line), "write -H 'Host: shop.example'")
		}
		l.Headers[name] = strings.TrimSpace(value)
	}
	switch {
	case protocol == app.TCP:
		if len(r.Body) == 0 || r.Expect == "" {
			return l, nil, hint.Usage(errors.New("--protocol tcp needs a request and its whole answer"), `write --data $'PING\r\n' --expect-body $'+PONG\r\n'`)
		}
		return l, nil, nil
	case r.Expect != "":
		return l, nil, hint.Usage(errors.New("--expect-body is of --protocol tcp"), "write load.checks in an experiment file, for other protocols")
	case r.Method == "" && len(r.Body) == 0:
		if r.Path != "" {
			route = []string{r.Path}
		}
		return l, route, nil
	case protocol != "" && protocol != app.HTTP1 && protocol != app.HTTP2:
		return l, nil, hint.Usage(errors.New("--method and --data are of HTTP"), "write load.requests in an experiment file, which has messages of gRPC, or load.webSocket")
	}
	l.Requests = []weighRequest{{Method: r.Method, Path: r.Path, Body: experiment.Body(r.Body)}}
	typed := slices.ContainsFunc(slices.Collect(maps.Keys(l.Headers)), func(name string) bool { return strings.EqualFold(name, "content-type") })
	if len(r.Body) > 0 && !json.Valid(r.Body) && !typed { // JSON has its own
		l.Headers["Content-Type"] = "application/x-www-form-urlencoded" // as curl and tare load
	}
	return l, nil, nil
}

// weighFlags are fields of the file of tare weigh, and the flags that set them. Longer names precede their prefixes.
var weighFlags = []struct {
	field *regexp.Regexp
	flag  string
}{
	{field(`phases\.prewarm: 0s`), "--cold"},
	{field(`(?:phases\.(?:warmup|measure|prewarm)|load\.workers|slices\.(?:length|guard)|validity\.errorRatio)`), "$0 of the kept file (tare run FILE --set)"},
	{field(`platform\.cpus: \{load: …\}`), "$0 in the kept file"},
	{field(`factors\.connections`), "--connections"},
	{field(`factors\.rate`), "--rate"},
	{field(`factors\.route(?: or load\.requests)?`), "--path"},
	{field(`load\.requests\[0\]\.path`), "--path"},
	{field(`load\.requests\[0\]\.method`), "--method"},
	{field(`load\.requests\[0\]\.body`), "--data"},
	{field(`factors\.protocol`), "--protocol"},
	{field(`factors\.mesh`), "--mesh"},
	{field(`load\.headers`), "--header"},
	{field(`applications\.[a-z0-9-]+\.env`), "--env"},
	{field(`applications\.[a-z0-9-]+\.prefix`), "--prefix"},
	{field(`applications\.[a-z0-9-]+\.beside[][0-9a-z.]*`), "--beside"},
	{field(`(?:applications\.[a-z0-9-]+|application)\.command`), "the program"},
	{field(`application\.ready`), "--ready"},
	{field(`application\.url`), "--url"},
	{field(`application\.namespace`), "--namespace"},
	{field(`application\.manifests`), "--manifests"},
	{field(`application\.entry`), "--entry"},
	{field(`application\.inPlace`), "--in-place"},
	{field(`platform\.kubeconfig`), "--kubeconfig"},
	{field(`platform\.context`), "--context"},
	{field(`platform\.image`), "--image"},
	{field(`platform\.inUse(?:: allow)?`), "--in-use"},
	{field(`meshes\.[a-z0-9-]+\.sidecar[a-z.]*`), "--sidecar"},
	{field(`meshes\.[a-z0-9-]+\.gateway[a-z.]*`), "--gateway"},
	{field(`meshes\.[a-z0-9-]+\.charts`), "--charts"},
	{field(`meshes\.[a-z0-9-]+\.version`), "--mesh-version"},
	{field(`meshes\.[a-z0-9-]+(?:\.options[a-zA-Z.]*)?`), "--option"},
}

func field(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`\b` + pattern + `(?:\[\d+\])*`)
}

// weighPhrases are hints that fit a file only, and those for flags.
var weighPhrases = strings.NewReplacer(
	"write command instead of url", "write it after -- in place of --url",
	"write platform: {kind: local}, or remove it; ", "",
	"write platform: {kind: local}", "name a program after -- in place of the application on a cluster",
	"write max for a closed loop", "",
	"or write its path in the mesh definition", "or write its path in --sidecar",
	"set --in-use", "add --in-use",
)

// InFlags returns an error of a study of tare weigh, which has no file that a person wrote: it names flags in place of
// fields, and has no lines.
func InFlags(err error) error {
	mistakes, wrong := errors.AsType[strict.Problems](err)
	if !wrong {
		if text := hint.Of(err); HintInFlags(text) != text {
			return hint.Wrap(err, HintInFlags(text))
		}
		return err
	}
	var all strict.Problems
	for _, p := range mistakes {
		_, cause, _ := strings.Cut(p.Message, ": ")
		if repeats(all, cause) {
			continue
		}
		all = append(all, strict.Problem{Message: HintInFlags(p.Message), Tip: HintInFlags(p.Tip)})
	}
	return all
}

// repeats reports whether a cause is one of a mistake before, seen from another field.
func repeats(before strict.Problems, cause string) bool {
	for _, p := range before {
		if _, earlier, ok := strings.Cut(p.Message, ": "); ok && strings.HasSuffix(cause, ": "+earlier) {
			return true
		}
	}
	return false
}

// HintInFlags is a text that names flags in place of fields. A command about FILE, the kept file, has its own flags.
func HintInFlags(text string) string {
	if strings.Contains(text, "tare run FILE") {
		return weighPhrases.Replace(text)
	}
	for _, f := range weighFlags {
		text = f.field.ReplaceAllString(text, f.flag)
	}
	return weighPhrases.Replace(text)
}
