package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Owner identifies the tare process that created an object. A process ID is reused, so the start time is part of the
// identity, and it is valid only in one PID namespace of one boot.
type Owner struct {
	Host    string `json:"host"`
	Machine string `json:"machine,omitempty"` // /etc/machine-id
	Boot    string `json:"boot,omitempty"`    // the kernel's boot ID
	PIDs    string `json:"pids,omitempty"`    // the PID namespace, as in /proc/self/ns/pid
	PID     int    `json:"pid"`
	Start   uint64 `json:"start,omitempty"` // clock ticks since boot, field 22 of /proc/PID/stat, 0 without /proc
	User    string `json:"user,omitempty"`
	Since   string `json:"since,omitempty"` // RFC 3339: when ThisProcess was first called
}

// initialPIDs is the initial PID namespace of a machine (PROC_PID_INIT_INO of the kernel), which no container has.
const initialPIDs = "pid:[4026531836]"

// State is the state of a run's process.
type State string

// States of an owner, seen from this process.
const (
	Alive     State = "alive"     // running on this machine
	Dead      State = "dead"      // ended on this machine
	Elsewhere State = "elsewhere" // on another machine or in another container: not visible from here
	Unmarked  State = "unmarked"  // no owner recorded
)

// ThisProcess is this process as an owner.
var ThisProcess = sync.OnceValue(func() Owner {
	o := Owner{PID: os.Getpid(), Machine: firstLine("/etc/machine-id"), Boot: firstLine("/proc/sys/kernel/random/boot_id"),
		Since: time.Now().UTC().Format(time.RFC3339)}
	o.Host, _ = os.Hostname()
	o.PIDs, _ = os.Readlink("/proc/self/ns/pid")
	o.Start, _ = startOf(o.PID)
	if u, err := user.Current(); err == nil {
		o.User = u.Username
	}
	return o
})

// State is the owner's state, as far as it is visible from this process. If in doubt it is not Dead, because the objects
// of dead owners are deleted without confirmation.
func (o Owner) State() State { return o.seenFrom(ThisProcess()) }

func (o Owner) seenFrom(here Owner) State {
	switch {
	case o.PID <= 0:
		return Unmarked
	case o.Host != here.Host:
		return Elsewhere
	case o.Boot != here.Boot:
		// The machine was rebooted since. Unlike machines, containers often share a name and a machine-id.
		if o.Machine != "" && o.Machine == here.Machine && o.PIDs == initialPIDs && here.PIDs == initialPIDs {
			return Dead
		}
		return Elsewhere
	case o.PIDs != here.PIDs:
		return Elsewhere
	}
	start, err := startOf(o.PID)
	if errors.Is(err, errGone) || err == nil && start != o.Start {
		return Dead
	}
	return Alive
}

// String names the owner in messages.
func (o Owner) String() string {
	if o.PID <= 0 {
		return "unknown"
	}
	who := fmt.Sprintf("process %d on %s", o.PID, o.Host)
	if o.User != "" {
		who += " (" + o.User + ")"
	}
	if o.Since != "" {
		who += " since " + o.Since
	}
	return who
}

var errGone = errors.New("no such process")

// startOf is when a process started, in clock ticks since boot, 0 if unknown. errGone: it has ended (zombies included).
func startOf(pid int) (uint64, error) {
	p, err := procfs.NewProc(pid)
	var stat procfs.ProcStat
	if err == nil {
		stat, err = p.Stat()
	}
	if err != nil {
		// Without /proc, or if it hides other users' processes, only the process ID can be checked.
		if killed := syscall.Kill(pid, 0); errors.Is(killed, syscall.ESRCH) && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)) {
			return 0, errGone
		}
		return 0, err
	}
	if stat.State == "Z" || stat.State == "X" {
		return 0, errGone
	}
	return stat.Starttime, nil
}

func firstLine(path string) string {
	b, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

// FieldManager is tare's name in server-side apply.
const FieldManager = "tare"

// Labels and annotations of tare's objects.
const (
	LabelManagedBy  = "app.kubernetes.io/managed-by" // always ManagedBy
	LabelRun        = "tare.dev/run"                 // the run's ID, by which clean-up finds objects
	LabelInstalled  = "tare.dev/installed"           // name of an installation that outlives runs: clean-up leaves it alone, the guard accepts it
	AnnotationOwner = "tare.dev/owner"               // the [Owner] as JSON
	ManagedBy       = "tare"
)

// Stamp is the marks of objects that are applied together, and the archive of their manifests.
type Stamp struct {
	Run string // the run's ID, a valid label value
	// Installed is, in place of Run, the name of an installation that outlives the run.
	Installed string
	Owner     Owner             // the process whose end makes the objects leftovers, zero for this process
	Labels    map[string]string // more labels
	// Foreign objects are another tool's, such as Helm's: their label [LabelManagedBy] stays.
	Foreign bool
	// Archive receives each manifest before it is sent, and nil keeps none.
	Archive func(Manifest) error
}

// Manifest is one object as sent to the cluster.
type Manifest struct {
	Ref  Ref
	YAML []byte // without a document separator
}

// podTemplates are the paths of pod templates in the kinds that have one.
var podTemplates = [][]string{
	{"spec", "template"},
	{"spec", "jobTemplate", "spec", "template"},
}

// Mark sets the stamp's labels and the owner's annotation on an object, and the labels on its pod template.
func (s Stamp) Mark(o *unstructured.Unstructured) error {
	owner, err := json.Marshal(s.owner())
	if err != nil {
		return fmt.Errorf("mark %s: %w", refOf(o), err)
	}
	labels := map[string]string{}
	if !s.Foreign {
		labels[LabelManagedBy] = ManagedBy
	}
	for label, value := range map[string]string{LabelRun: s.Run, LabelInstalled: s.Installed} {
		if value != "" {
			labels[label] = value
		}
	}
	maps.Copy(labels, s.Labels)
	o.SetLabels(Merged(o.GetLabels(), labels))
	o.SetAnnotations(Merged(o.GetAnnotations(), map[string]string{AnnotationOwner: string(owner)}))
	for _, path := range podTemplates {
		if template, ok, _ := unstructured.NestedMap(o.Object, path...); !ok || template["spec"] == nil {
			continue // not a pod template: other kinds use spec.template differently
		}
		at := append(append([]string{}, path...), "metadata", "labels")
		has, _, err := unstructured.NestedStringMap(o.Object, at...)
		if err != nil {
			return fmt.Errorf("mark %s: %w", refOf(o), err)
		}
		if err := unstructured.SetNestedStringMap(o.Object, Merged(has, labels), at...); err != nil {
			return fmt.Errorf("mark %s: %w", refOf(o), err)
		}
	}
	return nil
}

func (s Stamp) owner() Owner {
	if s.Owner == (Owner{}) {
		return ThisProcess()
	}
	return s.Owner
}

// Merged is a copy of a map with the entries of another.
func Merged(to, from map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, to)
	maps.Copy(all, from)
	return all
}
