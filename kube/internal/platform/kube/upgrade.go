package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

// upgrade moves the application to further revisions of the mesh. Without a mesh it only rolls the application out.
type upgrade struct {
	*trial
	pods    *trialPods
	monitor *podMonitor
	faults  *faults
	applier *applier

	revisions []*meshes.Revision // whose installation was begun
	marks     mesh.Marks         // of the namespace, as the last move left it
}

// install installs the control plane of a revision.
func (u *upgrade) install(ctx context.Context, version int) error {
	if u.spec.Mesh.Kubernetes == nil {
		return nil
	}
	if u.revisions == nil {
		u.marks = u.enrolment.Namespace
	}
	revision, err := u.mesh.Revision(fmt.Sprintf("tare-%d", version), u.options.UpgradeTo)
	if err != nil {
		return err
	}
	u.revisions = append(u.revisions, revision)
	return revision.Install(ctx)
}

// move puts the namespace under the latest revision and rolls out the services. It returns when all new pods are ready, and
// describes the move in moved.
func (u *upgrade) move(ctx context.Context, moved *mesh.Moved) error {
	var proof mesh.Marks
	if u.spec.Mesh.Kubernetes != nil {
		if err := u.before(ctx, moved); err != nil {
			return err
		}
		to, err := u.latest().Enrol(u.namespace, mesh.Way{LoadInside: u.enrolment.loadInside, Front: u.enrolment.front, Services: protocolsOf(u.spec)})
		if err != nil {
			return err
		}
		if err := u.relabel(ctx, to.Namespace); err != nil {
			return err
		}
		u.marks, proof = to.Namespace, to.Proof
	}
	var old []*corev1.Pod
	var refs []cluster.Ref
	now := time.Now().Format(time.RFC3339Nano)
	for _, s := range u.agentServices() {
		for _, pod := range u.pods.ofService(s.Name) {
			u.faults.release(pod, false)
			old = append(old, pod)
		}
		refs = append(refs, cluster.Ref{Kind: cluster.KindDeployment, Namespace: u.namespace, Name: s.Name})
	}
	for _, ref := range refs {
		if err := u.cluster.Patch(ctx, ref, rollOut(now)); err != nil {
			return err
		}
	}
	if err := u.applier.wait(ctx, refs...); err != nil {
		return err
	}
	for _, pod := range old {
		if err := u.pods.awaitDeleted(ctx, pod, graceSeconds*time.Second); err != nil {
			return err
		}
	}
	if err := u.follow(proof); err != nil || u.spec.Mesh.Kubernetes == nil {
		return err
	}
	moved.End(u.proxies(), u.latest().ProxyImage())
	return nil
}

func (u *upgrade) latest() *meshes.Revision { return u.revisions[len(u.revisions)-1] }

// before reads the images of both control planes, and of the proxies that are to be replaced.
func (u *upgrade) before(ctx context.Context, moved *mesh.Moved) error {
	from, err := meshes.ControlImages(ctx, u.cluster, *u.spec.Mesh.Kubernetes)
	if n := len(u.revisions); n > 1 {
		from, err = u.revisions[n-2].ControlImages(ctx)
	}
	if err != nil {
		return err
	}
	to, err := u.latest().ControlImages(ctx)
	if err == nil {
		moved.Begin(from, to, u.proxies())
	}
	return err
}

// proxies are the images of the proxies of each pod of the application, by the pod's name.
func (u *upgrade) proxies() map[string][]string {
	all := map[string][]string{}
	for _, s := range u.agentServices() {
		for _, pod := range u.pods.ofService(s.Name) {
			all[pod.Name] = meshes.ProxyImages(*u.spec.Mesh.Kubernetes, pod)
		}
	}
	return all
}

// rollOut is the patch of kubectl rollout restart.
func rollOut(at string) []byte {
	return fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, at)
}

// relabel replaces the marks of the mesh on the namespace.
func (u *upgrade) relabel(ctx context.Context, to mesh.Marks) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": replacement(u.marks.Labels, to.Labels), "annotations": replacement(u.marks.Annotations, to.Annotations)}})
	if err != nil {
		return err
	}
	return u.cluster.Patch(ctx, u.namespaceRef(), patch)
}

// replacement is a merge patch that removes the keys of a map that another lacks, and sets the other's.
func replacement(from, to map[string]string) map[string]any {
	all := map[string]any{}
	for key := range from {
		all[key] = nil
	}
	for key, value := range to {
		all[key] = value
	}
	return all
}

// follow monitors the new pods. Each must have the marks of its revision.
func (u *upgrade) follow(proof mesh.Marks) error {
	for _, s := range u.agentServices() {
		for _, pod := range u.pods.ofService(s.Name) {
			if !has(pod.Labels, proof.Labels) || !has(pod.Annotations, proof.Annotations) {
				return fmt.Errorf("pod %s did not move to the new revision of the mesh: it lacks %v", pod.Name, proof)
			}
			u.monitor.add(pod)
		}
	}
	return nil
}

func has(all, some map[string]string) bool {
	for key, value := range some {
		if is, ok := all[key]; !ok || is != value {
			return false
		}
	}
	return true
}

// withdraw removes the control planes of all revisions, after the application.
func (u *upgrade) withdraw(ctx context.Context) (err error) {
	for _, revision := range u.revisions {
		err = errors.Join(err, revision.Remove(ctx))
	}
	if err == nil {
		u.revisions = nil
	}
	return err
}
