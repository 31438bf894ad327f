package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/shlex"
	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform/local"
)

// Weigh are the options of an experiment on a program, or on an application on a cluster, without a file.
type Weigh struct {
	URL        string
	Namespace  string // of a running application on a cluster
	Manifests  []string
	Entry      string // its Service that receives the load
	Kubeconfig string
	Context    string
	InPlace    bool   // enrol the namespace itself
	InUse      bool   // measure on a cluster that is not marked as disposable
	Yes        bool   // InPlace is confirmed
	Version    string // of the mesh
	Charts     string
	Options    []string
	Image      string
	Request
	Ready       string
	Ending      // of a program that ends
	Protocol    string
	TLS         bool // the program speaks TLS itself
	RateChosen  bool // --rate was given
	MeshChosen  bool // Meshes are not a default
	Meshes      []string
	Sidecars    []string // names of meshes, or commands as a shell reads them
	Gateways    []string // the same, each as one proxy between the load and the program
	Config      string   // file with the configuration of a gateway that is named
	Env         []string // NAME=value of the program, measured against the program without
	Prefix      string   // words before the program, as a shell reads them
	Beside      []string // commands of processes beside the program, as a shell reads them
	Rate        float64  // 0: searched
	Connections int
	Cold        bool          // no load before the warm-up
	Time        time.Duration // for all trials
	Out         string        // results directory
	Keep        string        // experiment file
}

// OnCluster reports whether the application is on a cluster.
func (o Weigh) OnCluster() bool { return o.Namespace != "" || len(o.Manifests) > 0 }

// WeighStudy is an experiment without a file, from its options to the study that is run.
type WeighStudy struct {
	Study     *Study
	Out, Path string // results directory, experiment file

	o    Weigh
	file *weighFile
}

// Weigh returns the experiment of the options and of a program with its arguments. Nothing is written yet.
func (p *Program) Weigh(ctx context.Context, o Weigh, args []string) (*WeighStudy, error) {
	file, err := o.file(args)
	if err != nil {
		return nil, err
	}
	w := &WeighStudy{o: o, file: file, Out: cmp.Or(o.Out, newDir(file.Metadata.Name, time.Now().UTC()))}
	w.Path = cmp.Or(o.Keep, strings.TrimRight(w.Out, "/")+".yaml")
	if err := result.CheckEmpty(w.Out); err != nil { // before the file beside it is replaced
		return nil, err
	}
	if w.Study, err = p.studyOf(ctx, file, "tare weigh"); err != nil {
		return nil, err
	}
	return w, p.Runs(w.Study.Experiment)
}

func (w *WeighStudy) Blocks() int { return w.file.Blocks.Min }

// Load describes the load: "at 100 requests/s on 4 connections".
func (w *WeighStudy) Load() string {
	if w.file.Batch != nil {
		return "executions, since the program ends"
	}
	return fmt.Sprintf("at %v requests/s on %s", w.file.Factors.Rate[0], printable.Counted(w.o.Connections, "connection"))
}

// Expected is the time of all trials without repetitions.
func (w *WeighStudy) Expected() time.Duration {
	return w.Study.Expected() / time.Duration(max(1, w.file.Blocks.Max)) * time.Duration(w.file.Blocks.Min)
}

// Fit chooses rate, slices and blocks: on this machine it searches for a rate.
func (w *WeighStudy) Fit(ctx context.Context) error {
	p := w.Study.Program
	var start time.Duration
	if w.o.OnCluster() {
		w.file.Blocks = repeated(min(maxWeighBlocks, max(minWeighBlocks, int(w.o.Time/w.Study.Plan.TrialTime)/len(w.Study.Plan.Treatments))))
	} else {
		var err error
		for start, err = fit(ctx, w); err != nil && w.adapt(err); start, err = fit(ctx, w) {
			if w.Study, err = p.studyOf(ctx, w.file, w.Path); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	var err error
	if w.Study, err = p.studyOf(ctx, w.file, w.Path); err != nil {
		return err
	}
	w.Study.Plan.Expected += start * time.Duration(len(w.Study.Plan.Trials))
	w.Study.Plan.TrialTime += start
	w.Study.ReadTrialTimes(filepath.Dir(w.Out))
	text, err := w.file.yaml(w.Path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(w.Path), 0o750); err != nil {
		return fmt.Errorf("write the experiment file: %w", err)
	}
	return outfile.WriteFile(w.Path, text, 0o644)
}

// adapt changes the file to a protocol that the program was found to speak, once for each. It reports whether it did.
func (w *WeighStudy) adapt(err error) bool {
	switch {
	case errors.Is(err, local.ErrTLS):
		w.Study.Program.Note("the program speaks TLS: measuring with --tls")
		w.o.TLS = true
		w.file.secure(w.o)
		return true
	case errors.Is(err, local.ErrHTTP2):
		w.Study.Program.Note("the program speaks HTTP/2, and not HTTP/1.1: measuring with --protocol http2")
		w.file.Factors.Protocol = []string{app.HTTP2}
		return true
	}
	exit, ended := errors.AsType[*proc.ExitError](err)
	if !ended || exit.State != "exit status 0" || !w.o.changesProgram() || w.file.Batch != nil {
		return false
	}
	w.Study.Program.Note("the program ends with exit code 0: measuring its executions (a server must stay in the foreground)")
	return w.file.ends(w.o) == nil // --prepare was read before
}

// secure makes the load speak TLS with the program.
func (w *weighFile) secure(o Weigh) {
	if !o.TLS && !strings.HasPrefix(o.URL, "https://") {
		return
	}
	if v, ok := w.Applications[plainVariant]; ok {
		v.TLS = o.URL == ""
		w.Applications[plainVariant] = v
	} else {
		w.Application.TLS = o.URL == ""
	}
	w.forwarding(o)
}

// forwarding replaces a mesh that nobody chose by one that forwards connections.
func (w *weighFile) forwarding(o Weigh) {
	if i := slices.Index(w.Factors.Mesh, "envoy"); i >= 0 && !o.MeshChosen {
		w.Factors.Mesh[i] = "envoy-tcp"
	}
}

// studyOf reads the file as `tare run` does.
func (p *Program) studyOf(ctx context.Context, w *weighFile, path string) (*Study, error) {
	text, err := w.yaml(path)
	if err != nil {
		return nil, err
	}
	s, err := p.Decode(ctx, path, text, Options{Meshes: w.definitions})
	return s, InFlags(err)
}

// weighFile is the experiment file of tare weigh: the fields of [experiment.Experiment] that a person
// would write.
type weighFile struct {
	APIVersion  string              `yaml:"apiVersion"`
	Kind        string              `yaml:"kind"`
	Metadata    experiment.Metadata `yaml:"metadata"`
	Platform    weighPlatform       `yaml:"platform,omitempty"`
	Application weighApplication    `yaml:"application,omitempty"`
	// Applications are the program as it is, and with the measured addition.
	Applications map[string]experiment.ApplicationVariant `yaml:"applications,omitempty"`
	Meshes       map[string]weighMesh                     `yaml:"meshes,omitempty"`
	Factors      weighFactors                             `yaml:"factors"`
	Baseline     map[string]string                        `yaml:"baseline,flow,omitempty"`
	Batch        *experiment.Batch                        `yaml:"batch,omitempty"`
	Load         weighLoad                                `yaml:"load,omitempty"`
	Order        string                                   `yaml:"order,omitempty"`
	Slices       *experiment.Slices                       `yaml:"slices,omitempty"`
	Blocks       experiment.Blocks                        `yaml:"blocks"`
	Control      bool                                     `yaml:"control"`
	Phases       weighPhases                              `yaml:"phases"`

	definitions []string // files of meshes
}

// weighPlatform is empty on this machine.
type weighPlatform struct {
	Kind       string `yaml:"kind,omitempty"`
	Kubeconfig string `yaml:"kubeconfig,omitempty"`
	Context    string `yaml:"context,omitempty"`
	Image      string `yaml:"image,omitempty"`
	InUse      string `yaml:"inUse,omitempty"`
}

// weighMesh is the choice of a mesh's charts, or a proxy that is any program.
type weighMesh struct {
	From    string               `yaml:"from,omitempty"`
	Sidecar *experiment.OwnProxy `yaml:"sidecar,omitempty"`
	Gateway *experiment.OwnProxy `yaml:"gateway,omitempty"`
	Version string               `yaml:"version,omitempty"`
	Charts  string               `yaml:"charts,omitempty"`
	Options map[string]string    `yaml:"options,omitempty"`
}

type weighApplication struct {
	app.Own   `yaml:",inline"`
	Manifests []string `yaml:"manifests,omitempty"`
	Namespace string   `yaml:"namespace,omitempty"`
	InPlace   bool     `yaml:"inPlace,omitempty"`
	Entry     string   `yaml:"entry,omitempty"`
}

type weighFactors struct {
	Application []string  `yaml:"application,flow,omitempty"`
	Mesh        []string  `yaml:"mesh,flow,omitempty"`
	Rate        []float64 `yaml:"rate,flow,omitempty"`
	Connections []int     `yaml:"connections,flow,omitempty"`
	Protocol    []string  `yaml:"protocol,flow,omitempty"`
	Route       []string  `yaml:"route,flow,omitempty"`
}

type weighPhases struct {
	Prewarm *experiment.Duration `yaml:"prewarm,omitempty"`
	Warmup  experiment.Duration  `yaml:"warmup"`
	Measure experiment.Duration  `yaml:"measure"`
	Drain   experiment.Duration  `yaml:"drain"`
}

// Phases of tare weigh, for each treatment.
const (
	weighWarmup  = 500 * time.Millisecond
	weighMeasure = 2 * time.Second
	weighDrain   = time.Second
)

// portMark is the port in a command line. Shells replace ${port}, and leave {port}.
var portMark = regexp.MustCompile(`(^|[^$])\{(port|host)\}`)

// programWords are a program's command line with its marks.
func programWords(args []string) (words []string, err error) {
	words = lists.Map(args, func(word string) string { return portMark.ReplaceAllString(word, "$1$${$2}") })
	return words, knownFields("the program", args, programFields, false)
}

// file returns the experiment that the options describe. Its rate and blocks are chosen later.
func (o Weigh) file(args []string) (*weighFile, error) {
	var name string
	if o.OnCluster() {
		return o.fileOnCluster(args)
	}
	switch {
	case o.Entry != "" || o.Kubeconfig != "" || o.Context != "" || o.InPlace || o.InUse || o.Yes || o.Version != "" || o.Charts != "" || o.Image != "":
		return nil, hint.Usage(errors.New("--entry, --kubeconfig, --context, --in-place, --in-use, --yes, --mesh-version, --charts and --image apply to a cluster"), "add --namespace NAME or --manifests DIR")
	case len(args) == 0 && o.URL == "":
		return nil, hint.Usage(errors.New("no program to measure"), "write `tare weigh -- PROGRAM {port}`, or --url http://127.0.0.1:8080 for one that runs")
	case len(args) > 0 && o.URL != "":
		return nil, hint.Usage(errors.New("both a program and --url"), "remove one of the two")
	case len(args) > 0 && strings.Contains(args[0], "//") && strings.Contains(args[0], ":"):
		return nil, hint.Usage(fmt.Errorf("%s is a URL, and not a program", printable.URL(args[0])), "measure a program that runs on this machine with --url, or send load to any server with `tare load`")
	case o.Time < 10*time.Second || o.Time > 24*time.Hour:
		return nil, hint.Usage(fmt.Errorf("--time %v is not between 10s and 24h", o.Time), "")
	case slices.Equal(o.Meshes, []string{"none"}):
		return nil, hint.Usage(errors.New("--mesh none is the baseline"), "name the mesh to compare with it, such as envoy")
	case !(o.Rate >= 0) || math.IsInf(o.Rate, 0) || o.RateChosen && o.Rate == 0: // NaN is neither
		return nil, hint.Usage(fmt.Errorf("--rate is %v", o.Rate), "omit --rate: tare then searches for a rate")
	case o.Config != "" && len(o.Gateways) != 1:
		return nil, hint.Usage(errors.New("--config is the configuration of one --gateway"), "name one gateway, such as --gateway nginx; a file takes several: meshes.NAME.gateway.config")
	case o.changesProgram() && len(o.Meshes)+len(o.Sidecars)+len(o.Gateways) > 0:
		return nil, hint.Usage(errors.New("--env, --prefix and --beside measure without a mesh"), "remove --mesh, --sidecar and --gateway; an experiment file can combine them: factors.application and factors.mesh")
	case o.Prepare != "" && !o.changesProgram():
		return nil, hint.Usage(errors.New("--prepare is for programs that end"), "add --env, --prefix or --beside: a program that ends has no sidecar")
	case o.changesProgram() && o.URL != "":
		return nil, hint.Usage(errors.New("--env, --prefix and --beside need a program that tare starts"), "write the program after -- in place of --url")
	}
	for _, d := range mesh.Builtin() {
		if slices.Contains(o.Meshes, d.Name) && d.On(mesh.OnLocal) != nil {
			return nil, hint.Usage(fmt.Errorf("mesh %s needs a cluster", d.Name), "add --namespace NAME --entry SERVICE for an application on a cluster; `tare list meshes` has those that run on this machine")
		}
	}
	w := &weighFile{APIVersion: experiment.APIVersion, Kind: experiment.Kind, Order: experiment.OrderInterleaved, Blocks: repeated(minWeighBlocks), Control: true, Meshes: map[string]weighMesh{},
		Phases:  weighPhases{Warmup: experiment.Duration(weighWarmup), Measure: experiment.Duration(weighMeasure), Drain: experiment.Duration(weighDrain)},
		Factors: weighFactors{Mesh: []string{"none"}, Rate: []float64{cmp.Or(o.Rate, 1)}, Connections: []int{o.Connections}, Protocol: []string{o.Protocol}}}
	if o.Cold {
		w.Phases.Prewarm = new(experiment.Duration)
	}
	w.Application.Ready, w.Application.Exchange = o.Ready, o.exchange()
	path := o.Path
	if o.Protocol == "grpc" && path != "" && !strings.HasPrefix(path, "/") { // as grpcurl names methods
		path = "/" + path
	}
	if o.URL != "" {
		scheme, rest, _ := strings.Cut(o.URL, "://")
		host, inURL, _ := strings.Cut(rest, "/")
		w.Application.URL, name = scheme+"://"+host, "url"
		if path == "" && inURL != "" {
			path = "/" + inURL
		}
	} else {
		dir, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("find the working directory: %w", err)
		}
		w.Application.Dir, name = dir, programName(args, "program")
		if w.Application.Command, err = programWords(args); err != nil {
			return nil, err
		}
		w.Metadata.Description = proc.Command{Path: args[0], Args: args[1:]}.String()
	}
	o.Path = path
	var invalid error
	w.Load, w.Factors.Route, invalid = o.load(o.Protocol)
	w.Metadata.Name = label("weigh-" + name)
	err := errors.Join(invalid, w.addMeshes(o.Meshes), w.addSidecars(o.Sidecars), w.addGateways(o.Gateways, o.Config), w.addVariant(o), w.choose(o))
	w.secure(o)
	if o.Protocol == app.TCP {
		w.forwarding(o)
	}
	if o.Prepare != "" {
		err = errors.Join(err, w.ends(o))
	}
	return w, err
}

// addMeshes adds meshes by name, or by the file of a definition.
func (w *weighFile) addMeshes(all []string) error {
	for _, m := range all {
		if mesh.IsPath(m) {
			d, err := mesh.Load(m)
			if err != nil {
				return hint.InvalidFile(err)
			}
			w.definitions, m = append(w.definitions, m), d.Name
		}
		if m != "none" && !slices.Contains(w.Factors.Mesh, m) {
			w.Factors.Mesh = append(w.Factors.Mesh, m)
		}
	}
	return nil
}

// proxyMark is a field in the command line of a proxy, as portMark.
var proxyMark = regexp.MustCompile(`(^|[^$])\{((?:` + strings.Join(proxyFields, "|") + `)(?:\.host|\.port)?)\}`)

// addSidecars adds sidecars: a mesh by its name, or any program by its command line.
func (w *weighFile) addSidecars(all []string) error {
	for _, text := range all {
		named, own, err := ownProxy("--sidecar", text)
		switch {
		case err != nil:
			return err
		case named != "":
			err = w.addMeshes([]string{named})
		default:
			w.addMesh(own.name, weighMesh{Sidecar: &own.OwnProxy})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addGateways adds gateways: the proxy of a mesh by its name, or any program by its command line. config is a file.
func (w *weighFile) addGateways(all []string, config string) error {
	text := ""
	if config != "" {
		content, err := strict.ReadFile(config)
		if err != nil {
			return hint.InvalidFile(fmt.Errorf("read --config: %w", err))
		}
		text = string(content)
	}
	for _, g := range all {
		named, own, err := ownProxy("--gateway", g)
		switch {
		case err != nil:
			return err
		case named == "":
			own.Config = text
			w.addMesh("gateway-"+own.name, weighMesh{Gateway: &own.OwnProxy})
			continue
		}
		d, err := mesh.Load(named)
		if err != nil {
			return hint.InvalidFile(err)
		}
		if mesh.IsPath(named) {
			w.definitions = append(w.definitions, named)
		}
		m := weighMesh{From: d.Name, Gateway: &experiment.OwnProxy{Config: text}}
		switch option := d.OptionOf("mtls"); {
		case !d.Provides.MTLS:
		case option != "":
			m.Options = map[string]string{option: "false"}
		case slices.Contains(mesh.Names(), d.Name+"-plaintext"): // a gateway is one proxy: nothing decrypts behind it
			m.From += "-plaintext"
		}
		w.addMesh("gateway-"+d.Name, m)
	}
	return nil
}

type namedProxy struct {
	experiment.OwnProxy
	name string
}

// ownProxy reads the value of a flag: the name of a mesh or the file of its definition, or else a command line, which is split as
// a shell does.
func ownProxy(flag, text string) (named string, own namedProxy, err error) {
	words, err := shlex.Split(text)
	switch {
	case err != nil:
		return "", own, hint.Usage(fmt.Errorf("%s %q: %w", flag, text, err), "quote as in a shell; no shell is started")
	case len(words) == 0:
		return "", own, hint.Usage(errors.New(flag+" is empty"), "write a command with {listen} and {upstream}, or a mesh of `tare list meshes`")
	case len(words) == 1 && (slices.Contains(mesh.Names(), words[0]) || mesh.IsPath(words[0]) && strings.HasSuffix(words[0], ".yaml")):
		return words[0], own, nil
	case !strings.Contains(text, "{listen") && !strings.Contains(text, "{config"):
		return "", own, hint.Usage(fmt.Errorf("%s %q has no {listen}", flag, text),
			"write {listen} where it takes the address to listen on and {upstream} where it forwards to, or name a mesh: "+strings.Join(mesh.Names(), ", "))
	}
	if err := knownFields(flag, words, proxyFields, true); err != nil {
		return "", own, err
	}
	own.name = programName(words, strings.TrimPrefix(flag, "--"))
	if own.Dir, err = os.Getwd(); err != nil {
		return "", own, fmt.Errorf("find the working directory: %w", err)
	}
	for _, word := range words {
		word = strings.ReplaceAll(word, "{{", `{{"{{"}}`)
		own.Command = append(own.Command, proxyMark.ReplaceAllString(word, "$1$${$2}"))
	}
	return "", own, nil
}

// Fields of the program's command line, and of --sidecar and --gateway.
var (
	programFields = []string{"port", "host"}
	proxyFields   = []string{"listen", "upstream", "ip", "concurrency", "admin", "socket", "config", "dir"}
)

// bracedWord is a word in braces. A shell's ${word} is none.
var bracedWord = regexp.MustCompile(`(?:^|[^$])\{([a-zA-Z_]+)(?:\.[a-zA-Z_]+)?\}`)

// knownFields refuses a word in braces that is not a field: {upstraem}. Without all only one that is almost a field: programs have words
// in braces of their own, and so have scripts.
func knownFields(of string, command, fields []string, all bool) error {
	for _, word := range command {
		for _, m := range bracedWord.FindAllStringSubmatch(word, -1) {
			near, ok := strict.Nearest(m[1], fields)
			if slices.Contains(fields, m[1]) || !all && (!ok || strings.Contains(m[0], ".")) || strings.ContainsAny(word, " \n") {
				continue
			}
			tip := "the fields are {" + strings.Join(fields, "}, {") + "}"
			if ok {
				tip = "did you mean {" + near + "}? T" + tip[1:]
			}
			return hint.Usage(fmt.Errorf("%s has no field {%s}: %q", of, m[1], word), tip)
		}
	}
	return nil
}

// addMesh adds a mesh under a name that no other mesh has.
func (w *weighFile) addMesh(name string, m weighMesh) {
	name = freeName(name, func(name string) bool {
		_, taken := w.Meshes[name]
		return taken || slices.Contains(mesh.Names(), name)
	})
	w.Meshes[name] = m
	w.Factors.Mesh = append(w.Factors.Mesh, name)
}

// interpreter matches a program that runs another one, which it is named by.
var interpreter = regexp.MustCompile(`^(python|node|ruby|perl|php|java|deno|bun|bash|sh)[0-9.]*$`)

// programName is the name of the program, or of the script or module that an interpreter runs.
func programName(words []string, otherwise string) string {
	path, rest := words[0], words[1:]
	if !interpreter.MatchString(filepath.Base(path)) {
		rest = nil
	}
	for i, word := range rest {
		if module := i > 0 && rest[i-1] == "-m"; module || filepath.Ext(word) != "" && !strings.HasPrefix(word, "-") && !strings.ContainsAny(word, "{ ") {
			path = map[bool]string{true: strings.ReplaceAll(word, ".", "-"), false: word}[module]
			break
		}
	}
	name := filepath.Base(path)
	if end := filepath.Ext(name); strings.ContainsFunc(end, unicode.IsLetter) { // otherwise it is part of a version
		name = strings.TrimSuffix(name, end)
	}
	return cmp.Or(label(name), otherwise)
}

// differingNames are the names of two programs by what differs in their command lines: scripts, flags, variables.
func differingNames(a, b []string) [2]string {
	programs := [2]string{programName(a, ""), programName(b, "")}
	a, b = strings.Fields(strings.Join(a, " ")), strings.Fields(strings.Join(b, " ")) // the words of a script too
	from := 0
	for from < min(len(a), len(b)) && a[from] == b[from] {
		from++
	}
	to := 0
	for to < min(len(a), len(b))-from && a[len(a)-1-to] == b[len(b)-1-to] {
		to++
	}
	var names, whole [2]string
	for i, words := range [][]string{a, b} {
		apart := words[from : len(words)-to]
		for j, word := range apart[:min(len(apart), 2)] {
			short := filepath.Base(word)
			names[i] += "-" + strings.TrimSuffix(short, filepath.Ext(short))
			if other := [][]string{b, a}[i]; from+j < len(other)-to {
				word = differingTail(word, other[from+j])
			}
			whole[i] += "-" + word
		}
		names[i], whole[i] = label(names[i]), label(whole[i])
		if len(apart) == 0 || !strings.ContainsFunc(names[i], unicode.IsLetter) || from > 0 && strings.HasPrefix(apart[0], "-") { // a flag or a number alone is no name
			names[i] = label(programs[i] + "-" + names[i])
		}
	}
	if names[0] == names[1] {
		return whole
	}
	return names
}

// differingTail is the end of a path from the part on that another path has not: base/bin/server of /tmp/base/bin/server, beside bin/server.
func differingTail(path, other string) string {
	x, y := strings.Split(filepath.Clean(path), "/"), strings.Split(filepath.Clean(other), "/")
	last := func(parts []string, n int) []string { return parts[max(0, len(parts)-n):] }
	n := 1
	for n < max(len(x), len(y)) && slices.Equal(last(x, n), last(y, n)) {
		n++
	}
	return strings.Join(last(x, n), "/")
}

// label makes a DNS label of a name.
func label(name string) string {
	name = printable.Plain(strings.ToLower(name), "", '-')
	return strings.Trim(name[:min(len(name), 40)], "-")
}

func (w *weighFile) yaml(path string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Written by tare weigh. To repeat it, perhaps with more blocks:\n#\n#     %s\n", Command(w.definitions, path))
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(w), e.Close()); err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return b.Bytes(), nil
}

func startHint(err error, w *weighFile) error {
	command := slices.Concat(w.Application.Command, w.Applications[plainVariant].Command)
	if !strings.Contains(hint.Of(err), "${port}") || slices.ContainsFunc(command, func(word string) bool { return strings.Contains(word, "${port}") }) {
		return err
	}
	return hint.Wrap(err, "no argument is {port}: write it where the program takes its port, or let it read the variable PORT (a shell removes an unquoted ${port})")
}
