package meshes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Target selects the subject of a verification.
type Target struct {
	Namespace string // the application's, empty for only the control plane
	// LoadInside requires the load generator's pods in the mesh. Otherwise they must be outside.
	LoadInside bool
	// Front is the backend of the mesh's ingress gateway, if the load comes through it from outside.
	Front *mesh.Front
	// Traffic returns the expected traffic of a pod in the mesh. If nil, each pod must have counted either requests that
	// it received or requests that it sent.
	Traffic func(*corev1.Pod) PodTraffic
	// IsLoad recognises the load generator's pods, nil for those with a container "load".
	IsLoad func(*corev1.Pod) bool
	// IsOutside recognises further pods that must be outside, nil for none.
	IsOutside func(*corev1.Pod) bool
	// Probe sends requests through the application from the load's place, and returns how many were answered. Counters
	// must then move. If nil, they must have moved already.
	Probe func(ctx context.Context) (answered int, err error)
	// Plaintext sends a request without TLS to a pod's port from a pod outside the mesh. It is used for meshes that admit
	// traffic from nodes. For others the API server, which is outside every mesh, sends the request. If nil, there is
	// no such pod and no test.
	Plaintext PlaintextRequest
}

// PlaintextRequest sends one request without TLS to a pod's port, and reports whether it was admitted.
type PlaintextRequest func(ctx context.Context, pod *corev1.Pod, port int32) (admitted bool, detail string, err error)

// Times of verification.
const (
	verifyWithin = time.Minute      // if the caller's context has no deadline
	verifyPause  = 2 * time.Second  // a mesh that has just changed needs time until its proxies have the configuration
	decideWithin = 30 * time.Second // a check that cannot be made is repeated for this long
)

// verifier checks that the mesh is in force.
type verifier struct {
	*instance
	target    Target
	reader    podReader
	control   controlPlane
	traffic   *trafficCheck
	plaintext *plaintextCheck

	// impossible is since when a check could not be made, for lack of an answer, by its name.
	impossible map[string]time.Time
	now        func() time.Time
}

func newVerifier(i *instance, t Target) *verifier {
	if t.IsLoad == nil {
		t.IsLoad = func(p *corev1.Pod) bool { return hasContainer(p, "load") }
	}
	reader := podReader{i.cluster}
	return &verifier{instance: i, target: t, reader: reader,
		control:    controlPlane{i, scaler{i.cluster, i.options.Report}},
		traffic:    &trafficCheck{instance: i, target: t, reader: reader, first: map[string]readings{}, last: map[string]readings{}},
		plaintext:  newPlaintextCheck(i, t),
		impossible: map[string]time.Time{}, now: time.Now}
}

// result is a check, and whether it could be made at all.
type result struct {
	check.Check
	impossible bool // no answer: it neither holds nor fails
}

func (v *verifier) run(ctx context.Context) ([]check.Check, error) {
	ctx, cancel := cluster.WithDefaultTimeout(ctx, verifyWithin)
	defer cancel()
	if v.definition.Kubernetes == nil {
		return nil, nil
	}
	if _, err := (adopter{v.instance}).adopt(ctx); err != nil {
		return nil, v.failed("verify", err)
	}
	if err := v.adoptSettings(ctx); err != nil {
		return nil, v.failed("verify", err)
	}
	reported := ""
	var last []check.Check // of the last whole round
	for {
		found, err := v.checkAll(ctx)
		checks, decided := v.decide(found)
		if err != nil {
			if last != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return last, nil
			}
			return checks, v.failed("verify", err)
		}
		failed, any := check.Failed(checks)
		if !any || decided {
			return checks, nil
		}
		if s := failed.Name + ": " + failed.Detail; s != reported {
			reported = s
			v.report("waiting: %s", s)
		}
		last = checks
		if deadline, _ := ctx.Deadline(); wait.For(ctx, verifyPause) != nil || time.Until(deadline) < verifyPause {
			return checks, nil // too late for another round
		}
	}
}

// decide ends the verification once a check could not be made for decideWithin: it then counts as failed.
func (v *verifier) decide(found []result) (checks []check.Check, decided bool) {
	for _, r := range found {
		since, known := v.impossible[r.Name]
		switch {
		case !r.impossible:
			delete(v.impossible, r.Name)
		case !known:
			v.impossible[r.Name] = v.now()
		case v.now().Sub(since) >= decideWithin:
			r.Detail += fmt.Sprintf(" (for %v)", decideWithin)
			decided = true
		}
		checks = append(checks, r.Check)
	}
	return checks, decided
}

// adoptSettings replaces settings that were not requested by the installed mesh's settings.
func (v *verifier) adoptSettings(ctx context.Context) error {
	i, ours, err := v.installed(ctx)
	if err != nil || !ours || i.Version == "" {
		return err
	}
	s := i.Settings()
	s.Version, s.Profile, s.Hub = v.requested.Version, cmp.Or(v.requested.Profile, s.Profile), cmp.Or(v.requested.Hub, s.Hub)
	options := map[string]string{}
	maps.Copy(options, s.Options)
	maps.Copy(options, v.requested.Options)
	s.Options = options
	v.settings, err = v.k.Complete(s)
	return err
}

func (v *verifier) checkAll(ctx context.Context) ([]result, error) {
	checks, err := v.control.check(ctx)
	if err != nil || v.target.Namespace == "" {
		return results(checks), err
	}
	pods, err := v.reader.list(ctx, v.target.Namespace)
	if err != nil {
		return results(checks), err
	}
	enrolled, err := v.k.Enrol(v.settings, v.target.Namespace, v.target.way())
	if err != nil {
		return results(checks), err
	}
	for _, w := range enrolled.Workloads {
		c, err := v.control.workload(ctx, w, v.target.Namespace, enrolled.Replicas)
		if err != nil {
			return results(checks), err
		}
		checks = append(checks, c)
	}
	for _, condition := range enrolled.Conditions {
		c, err := v.control.condition(ctx, condition, v.target.Namespace)
		if err != nil {
			return results(checks), err
		}
		checks = append(checks, c)
	}
	groups := groupPods(pods, v.target, v.proxies(true))
	checks = append(checks, groups.checkInMesh(v.k.Proxies, enrolled.Proof)...)
	checks = append(checks, groups.checkOutside(v.k.Proxies, enrolled.Proof)...)
	if v.k.KernelWork != "" {
		checks = append(checks, v.kernelWork())
	}
	all := results(checks)
	counted, err := v.traffic.check(ctx, groups)
	if err != nil {
		return all, err
	}
	all = append(all, counted...)
	refused, err := v.plaintext.check(ctx, groups)
	return append(all, refused...), err
}

func (t Target) way() mesh.Way { return mesh.Way{LoadInside: t.LoadInside, Front: t.Front} }

// results are checks that could be made.
func results(checks []check.Check) (all []result) {
	return lists.Map(checks, func(c check.Check) result { return result{Check: c} })
}

// kernelWork is the check of a mesh that works in the kernel. It always passes, with the place of that work as its caution.
func (v *verifier) kernelWork() check.Check {
	return check.Check{Name: "work in the kernel", OK: true, Detail: v.k.KernelWork,
		Caution: fmt.Sprintf("mesh %s works in the kernel too: %s, so this CPU is in plane node, task <node>/kernel, with the kernel's other work", v.title(), v.k.KernelWork),
		Hint:    "compare the node row with that of none on the same nodes: the difference includes this work"}
}
