// Package experiment is the experiment file: its types, strict decoding,
// defaults, validation and JSON Schema.
//
// [Decode] has no effect and reads nothing else. What the file names is read by package session, before [File.Complete].
// [File.Validate] reports every mistake at once, each with its line and column and, where one is known, a hint. A valid
// file can be planned.
package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
)

// Version and kind of an experiment file.
const (
	APIVersion = "tare.dev/v1beta1"
	Kind       = "Experiment"
)

// Experiment is one experiment file after decoding, defaulting and validation.
type Experiment struct {
	APIVersion  string      `yaml:"apiVersion" json:"apiVersion"`
	Kind        string      `yaml:"kind" json:"kind"`
	Metadata    Metadata    `yaml:"metadata" json:"metadata"`
	Platform    Platform    `yaml:"platform,omitempty" json:"platform"`
	Application Application `yaml:"application,omitempty" json:"application"`
	// Applications are programs of the user by names of their own, levels of the factor application.
	Applications map[string]ApplicationVariant `yaml:"applications,omitempty" json:"applications,omitempty"`
	// Meshes are options of each mesh, and variants of meshes under names of their own.
	Meshes      map[string]MeshOptions `yaml:"meshes,omitempty" json:"meshes,omitempty"`
	Factors     Factors                `yaml:"factors" json:"factors"`
	Load        Load                   `yaml:"load,omitempty" json:"load"`
	Batch       *Batch                 `yaml:"batch,omitempty" json:"batch,omitempty"` // nil: programs are servers
	Phases      Phases                 `yaml:"phases,omitempty" json:"phases"`
	Blocks      Blocks                 `yaml:"blocks" json:"blocks"`                               // repetitions of every treatment, default 6
	Order       string                 `yaml:"order,omitempty" json:"order,omitempty"`             // of the trials: "interleaved" or "balanced" (defaults without a seed), "random" (default with one), "by-mesh" or "once"
	Slices      Slices                 `yaml:"slices,omitempty" json:"slices,omitzero"`            // of order interleaved
	Seed        uint64                 `yaml:"seed" json:"seed"`                                   // default: drawn
	Baseline    Baseline               `yaml:"baseline,omitempty" json:"baseline"`                 // default {mesh: none} where none is a level
	Control     bool                   `yaml:"control" json:"control"`                             // measure the baseline again
	ControlAll  bool                   `yaml:"controlAll,omitempty" json:"controlAll,omitempty"`   // measure every treatment again
	Reference   bool                   `yaml:"reference,omitempty" json:"reference,omitempty"`     // add the reference proxy beside each baseline: the standard weight
	Ladder      bool                   `yaml:"ladder,omitempty" json:"ladder,omitempty"`           // the meshes are steps, each added to the one before it
	OneAtATime  bool                   `yaml:"oneAtATime,omitempty" json:"oneAtATime,omitempty"`   // no treatment differs from its baseline in two factors
	Confidence  float64                `yaml:"confidence" json:"confidence"`                       // of intervals, default 0.95
	Equivalence Share                  `yaml:"equivalence,omitempty" json:"equivalence,omitempty"` // margin of a ratio that counts as the same, by default 0 (not tested)
	Validity    Validity               `yaml:"validity,omitempty" json:"validity"`
	Decide      Decide                 `yaml:"decide,omitempty" json:"decide,omitzero"`   // gates that end the run when each is decided
	Changes     Changes                `yaml:"changes,omitempty" json:"changes,omitzero"` // of routes and endpoints
	Background  Background             `yaml:"background,omitempty" json:"background,omitzero"`
	Starts      int                    `yaml:"starts,omitempty" json:"starts,omitempty"` // stops and starts of the entry's pod after the load
	Faults      []Fault                `yaml:"faults,omitempty" json:"faults,omitempty"` // injected faults
	Expect      []string               `yaml:"expect,omitempty" json:"expect,omitempty"` // conditions that each trial must meet
}

// Metadata names the experiment.
type Metadata struct {
	Name        string `yaml:"name" json:"name"` // DNS label: it becomes part of directory and namespace names
	Description string `yaml:"description,omitempty" json:"description,omitempty"`
	// Names of levels in reports, by level: {/pay: payments}.
	Names map[string]string `yaml:"names,omitempty" json:"names,omitempty"`
}

// Platform is where trials run.
type Platform struct {
	Kind string `yaml:"kind,omitempty" json:"kind"` // "local" (default), "kubernetes"
	// Context of the kubeconfig, and the kubeconfig's path. Empty means as kubectl chooses. Kubernetes.
	Context    string `yaml:"context,omitempty" json:"context,omitempty"`
	Kubeconfig string `yaml:"kubeconfig,omitempty" json:"kubeconfig,omitempty"`
	// Image of tare-agent in the cluster. Empty means the one of this version. Kubernetes.
	Image string `yaml:"image,omitempty" json:"image,omitempty"`
	// Images of foreign load generators, by name. Kubernetes.
	Images map[string]Image `yaml:"images,omitempty" json:"images,omitempty"`
	// Digests of images, by reference: also of the images of generators, charts and meshes. Kubernetes.
	Digests map[string]string `yaml:"digests,omitempty" json:"digests,omitempty"`
	// Affinity is the placement of pods: "auto" (default), "none" or "labels". Kubernetes.
	Affinity string `yaml:"affinity,omitempty" json:"affinity,omitempty"`
	// Namespace is an existing namespace for all trials. Empty means that each trial creates its own. Kubernetes.
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	// Resources are requests and limits of containers, by plane: "app", "load". Kubernetes.
	Resources map[string]Resources `yaml:"resources,omitempty" json:"resources,omitempty"`
	// InUse is the policy for a cluster in use, or not marked as disposable: "refuse" (default) or "allow". Kubernetes.
	InUse string `yaml:"inUse,omitempty" json:"inUse,omitempty"`
	// ReadyWithin is how long the workloads of a trial may take to be ready. Kubernetes.
	ReadyWithin Duration `yaml:"readyWithin,omitempty" json:"readyWithin,omitzero"`
	// Expose is the access to the cluster for a load from outside: "nodePort" (default) or "loadBalancer". Kubernetes.
	Expose string `yaml:"expose,omitempty" json:"expose,omitempty"`
	// CPUs pins planes to processors, e.g. {load: "1", app: "0", data: "0"}; lists as taskset writes them ("0-3,6").
	CPUs map[string]string `yaml:"cpus,omitempty" json:"cpus,omitempty"`
	// Meter is the source of container figures. Empty means the kubelets. Kubernetes.
	Meter string `yaml:"meter,omitempty" json:"meter,omitempty"`
}

// Application is a topology by name, or inline.
type Application struct {
	Topology string        `yaml:"topology,omitempty" json:"topology,omitempty"` // default "echo"
	Entry    string        `yaml:"entry,omitempty" json:"entry,omitempty"`
	Services []app.Service `yaml:"services,omitempty" json:"services,omitempty"`
	// Own is the only service, called [app.OwnName]: a program of the user.
	app.Own `yaml:",inline"`
	// Chart installs the services, on a cluster, in place of programs of tare's.
	Chart *app.Chart `yaml:"chart,omitempty" json:"chart,omitempty"`
	// Source has objects that run the services, on a cluster.
	app.Source `yaml:",inline"`
}

// Load is how requests are sent.
type Load struct {
	Generator string `yaml:"generator,omitempty" json:"generator"` // if it is not a factor
	// From is the origin: "inside" the cluster (default), or "outside", the machine tare runs on. Kubernetes.
	From string `yaml:"from,omitempty" json:"from,omitempty"`
	// Entry is the target: the entry's "service" (default), or the ingress "gateway" of each mesh. Kubernetes.
	Entry    string   `yaml:"entry,omitempty" json:"entry,omitempty"`
	Arrivals string   `yaml:"arrivals,omitempty" json:"arrivals"` // constant | poisson (default) | uniform
	Timeout  Duration `yaml:"timeout" json:"timeout"`             // per request
	Workers  int      `yaml:"workers" json:"workers"`             // OS threads of the generator
	Checks   Checks   `yaml:"checks,omitempty" json:"checks,omitzero"`
	// Headers are sent with every request, Host among them, and may contain placeholders as Requests' headers do.
	Headers map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	// Requests are sent in proportion to their weights. Without any, the load is GET / of the entry.
	Requests []Request `yaml:"requests,omitempty" json:"requests,omitempty"`
	// Targets is a file of requests, which become Requests when the experiment is read.
	Targets string `yaml:"targets,omitempty" json:"targets,omitempty"`
	// Profile changes the rate with time.
	Profile RateProfile `yaml:"profile,omitempty" json:"profile,omitzero"`
	// Stream is "chunks" if each chunk of an answer is a message.
	Stream string `yaml:"stream,omitempty" json:"stream,omitempty"`
	// WebSocket describes the messages of protocol websocket.
	WebSocket WebSocket `yaml:"webSocket,omitempty" json:"webSocket,omitzero"`
}

// Checks are conditions on responses. A response that does not meet them counts
// as an error. Only tare's own generator supports them.
type Checks struct {
	Status    []Status `yaml:"status,omitempty" json:"status,omitempty"`       // default 2xx, and gRPC's 0
	BodyHas   []string `yaml:"bodyHas,omitempty" json:"bodyHas,omitempty"`     // texts
	BodyLacks []string `yaml:"bodyLacks,omitempty" json:"bodyLacks,omitempty"` // texts
	JSONHas   []string `yaml:"jsonHas,omitempty" json:"jsonHas,omitempty"`     // fields: errors, data.errors
	JSONLacks []string `yaml:"jsonLacks,omitempty" json:"jsonLacks,omitempty"` // fields
}

// Status is a code (404), a class (3xx), or one of gRPC (grpc-5).
type Status string

// Phases are the timed phases of a trial. Defaults are in [defaults], here and below.
type Phases struct {
	Warmup  Duration `yaml:"warmup" json:"warmup"`
	Measure Duration `yaml:"measure" json:"measure"`
	// Soak is a long measure phase of which the report has trends, in place of Measure. 0: none.
	Soak  Duration `yaml:"soak,omitempty" json:"soak,omitzero"`
	Drain Duration `yaml:"drain" json:"drain"` // deadline for requests in flight
	// Idle is when the application counts as idle, before and after the load. It applies
	// to counters with a refresh interval (platform kubernetes).
	Idle Idle `yaml:"idle,omitempty" json:"idle"`
	// Prewarm bounds the load before the warm-up of programs whose CPU of a request falls. 0: they are measured cold.
	Prewarm Duration `yaml:"prewarm" json:"prewarm"`
}

// Idle bounds what an idle application and data plane use.
type Idle struct {
	CPU      float64  `yaml:"cpu" json:"cpu"`                           // cores
	Memory   Size     `yaml:"memory,omitempty" json:"memory,omitempty"` // bytes, 0 for any
	Deadline Duration `yaml:"deadline" json:"deadline"`                 // max time to wait
}

// DefaultErrorRatio is the share of requests that may fail in a valid trial.
const DefaultErrorRatio = 0.001

// DefaultUnattributed is the share of all CPU that may be without attribution rule.
const DefaultUnattributed = 0.01

// Validity are the limits beyond which a trial is invalid. Ratios are 0..1.
type Validity struct {
	ErrorRatio    float64  `yaml:"errorRatio" json:"errorRatio"`       // failed requests over all
	RateShortfall float64  `yaml:"rateShortfall" json:"rateShortfall"` // missing share of the requested rate
	Unattributed  float64  `yaml:"unattributed" json:"unattributed"`   // of all CPU
	GeneratorCPU  float64  `yaml:"generatorCPU" json:"generatorCPU"`   // of one core, for a worker
	Lateness      Duration `yaml:"lateness" json:"lateness"`           // p99 send lateness that marks a trial, 0 for max(1 ms, 10 % of p50)
}

// Rate is requests per second. The zero value is "max", as fast as the connections allow (closed loop).
type Rate float64

// Max is the closed-loop rate.
const Max Rate = 0

// Duration is a time.Duration written as Go writes it: "30s", "1m30s", "250ms".
type Duration = app.Duration

// Size is a number of bytes, written as a number or with a unit: 512, "1KiB", "1MB".
type Size = app.Size

func (Status) Wants() string { return "a status such as 200, 2xx or grpc-0" }

func (s *Status) UnmarshalScalar(text string) error {
	if !load.IsStatus(text) {
		return fmt.Errorf("found %.40q, expected %s", text, s.Wants())
	}
	*s = Status(text)
	return nil
}

// String is the number, or "max".
func (r Rate) String() string {
	if r == Max {
		return "max"
	}
	return strconv.FormatFloat(float64(r), 'f', -1, 64)
}

// MarshalYAML writes a number, or max.
func (r Rate) MarshalYAML() (any, error) {
	if r == Max {
		return "max", nil
	}
	return float64(r), nil
}

func (Rate) Wants() string { return "a number of requests per second, or max" }

// UnmarshalScalar reads requests per second, or "max". A rate of 0 is refused:
// the value 0 is [Max].
func (r *Rate) UnmarshalScalar(text string) error {
	if text == "max" {
		*r = Max
		return nil
	}
	f, err := strict.Number(text)
	switch {
	case err != nil:
		return fmt.Errorf("found %.40q, expected %s", text, r.Wants())
	case f == 0:
		return errors.New("a rate of 0 sends nothing; write max for a closed loop")
	}
	*r = Rate(f)
	return nil
}

// Share is a part of a whole, 0..1, written as "2%" or as 0.02.
type Share float64

// String is the share in percent.
func (s Share) String() string { return strconv.FormatFloat(100*float64(s), 'g', 6, 64) + "%" }

func (Share) Wants() string { return "a share such as 2% or 0.02" }

func (s *Share) UnmarshalScalar(text string) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	f, err := strict.Number(strings.TrimSpace(number))
	if err != nil {
		return fmt.Errorf("found %.40q, expected %s", text, s.Wants())
	}
	if percent {
		f /= 100
	}
	if !(f > 0 && f < 1) {
		return fmt.Errorf("%.40q is not above 0 and below 100%%", text)
	}
	*s = Share(f)
	return nil
}

// MarshalYAML writes a percentage.
func (s Share) MarshalYAML() (any, error) { return s.String(), nil }

func (s *Share) UnmarshalYAML(n *yaml.Node) error { return s.UnmarshalScalar(n.Value) }

// Resources are requests and limits of each container of a plane, on a cluster.
type Resources struct {
	Requests Amounts `yaml:"requests,omitempty" json:"requests,omitzero"`
	Limits   Amounts `yaml:"limits,omitempty" json:"limits,omitzero"`
}

// Amounts are CPUs and memory. 0 means absent.
type Amounts struct {
	CPU    Cores `yaml:"cpu,omitempty" json:"cpu,omitempty"`
	Memory Size  `yaml:"memory,omitempty" json:"memory,omitempty"` // bytes
}

// over returns r with the amounts of under where r has none.
func (r Resources) over(under Resources) Resources {
	return Resources{Requests: r.Requests.over(under.Requests), Limits: r.Limits.over(under.Limits)}
}

func (a Amounts) over(under Amounts) Amounts {
	return Amounts{CPU: cmp.Or(a.CPU, under.CPU), Memory: cmp.Or(a.Memory, under.Memory)}
}

// proxy are the settings of the sidecars on Kubernetes.
func (o MeshOptions) proxy() mesh.ProxySettings {
	return mesh.ProxySettings{Image: o.Image, Concurrency: o.Concurrency, Environment: o.Environment,
		Requests: o.Resources.Requests.quantities(), Limits: o.Resources.Limits.quantities()}
}

// quantities are the amounts as Kubernetes writes them, by resource.
func (a Amounts) quantities() map[string]string {
	all := map[string]string{}
	if a.CPU != 0 {
		all["cpu"] = fmt.Sprintf("%.0fm", 1000*float64(a.CPU))
	}
	if a.Memory != 0 {
		all["memory"] = fmt.Sprint(int64(a.Memory))
		if a.Memory%mebibyte == 0 {
			all["memory"] = fmt.Sprintf("%dMi", int64(a.Memory/mebibyte))
		}
	}
	return all
}

const mebibyte = Size(1 << 20)

// Cores is a number of CPUs, written as a number or in thousandths: 0.25, "250m".
type Cores float64

// coresForm is the form of [Cores] in thousandths.
const coresForm = `^[0-9]+m$`

func (Cores) Wants() string { return "a number of CPUs such as 0.25 or 250m" }

func (c *Cores) UnmarshalScalar(text string) error {
	number, thousandths := strings.CutSuffix(text, "m")
	n, err := strict.Number(number)
	if thousandths {
		var whole uint64
		whole, err = strconv.ParseUint(number, 10, 32)
		n = float64(whole) / 1000
	}
	if err != nil {
		return fmt.Errorf("found %.40q, expected %s", text, c.Wants())
	}
	*c = Cores(n)
	return nil
}

// ProgramsImage is the value that selects the image of tare-agent for a generator.
const ProgramsImage = "agent"

// Image is the image of a load generator in a cluster.
type Image struct {
	Image string `yaml:"image" json:"image"`
	// Path of the program in the image. Empty means the known path of the generator, else /NAME.
	Path string `yaml:"path,omitempty" json:"path,omitempty"`
}

// ShortForm reads an image written as its reference only.
func (i *Image) ShortForm() (any, func()) {
	ref := new(string)
	return ref, func() { *i = Image{Image: *ref} }
}
