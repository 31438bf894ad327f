package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
)

// store is the image store of the cluster's containerd.
type store struct{ Layout }

// importImages loads the cluster's own images as soon as containerd answers.
func (l store) importImages(ctx context.Context, report progress) error {
	if err := l.packToolbox(); err != nil {
		return err
	}
	for _, n := range l.nodes() {
		answers := func(ctx context.Context) error { _, err := n.ctr(ctx, "version"); return err }
		if err := await(ctx, startLimit, "containerd of "+n.name(), answers); err != nil {
			return err
		}
	}
	for _, archive := range []string{l.Parts + "/images.tar", l.toolboxArchive()} {
		if _, err := l.LoadImage(ctx, archive); err != nil {
			return err
		}
	}
	report("images imported")
	return nil
}

// LoadImage imports an archive in Docker's or OCI's format into every node that runs, and returns the names of the
// images in it.
func (l Layout) LoadImage(ctx context.Context, archive string) (names []string, err error) {
	for _, n := range l.nodes() {
		if !n.runs("containerd") {
			continue
		}
		if names, err = n.loadImage(ctx, archive); err != nil {
			return nil, err
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("load image archive %s: no node of cluster %s has a containerd that runs", archive, l.Name)
	}
	return names, nil
}

func (n node) loadImage(ctx context.Context, archive string) ([]string, error) {
	// Another import may need a layer that this one removes.
	unlock, err := lockFile(ctx, n.own("images.lock"), true)
	if err != nil {
		return nil, err
	}
	defer unlock()
	out, err := n.ctr(ctx, "images", "import", archive)
	if err != nil {
		return nil, fmt.Errorf("load image archive %s: %w", archive, err)
	}
	var names []string
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(line, "unpacking "); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("load image archive %s: no image in it has a name", archive)
	}
	return names, n.dropLayers(ctx)
}

// dropLayers removes the layers of images that are unpacked, which containerd keeps for pushes: half of an image's disk.
func (n node) dropLayers(ctx context.Context) error {
	layers, err := n.ctr(ctx, "content", "ls", "--quiet", `labels."containerd.io/uncompressed"`)
	if err == nil && strings.TrimSpace(layers) != "" {
		_, err = n.ctr(ctx, append([]string{"content", "rm"}, strings.Fields(layers)...)...)
	}
	if err != nil {
		return fmt.Errorf("remove layers of unpacked images: %w", err)
	}
	return nil
}

func (n node) ctr(ctx context.Context, arguments ...string) (string, error) {
	return output(exec.CommandContext(ctx, "ctr", append([]string{"--address", n.Containerd(), "--namespace", "k8s.io"}, arguments...)...))
}

// Kubectl runs the kubectl that belongs to the cluster and returns what it prints.
func (l Layout) Kubectl(ctx context.Context, arguments ...string) (string, error) {
	return output(exec.CommandContext(ctx, l.program("kubectl"), append([]string{"--kubeconfig", l.Kubeconfig()}, arguments...)...))
}

// output runs a command that ends with this program, however that ends: an import of images would ask a containerd
// that is gone for ever.
func output(command *exec.Cmd) (string, error) {
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s", strings.Join(command.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// installAddons waits for the API server and hands it what runs on every cluster.
func (l api) installAddons(ctx context.Context, report progress) error {
	if err := await(ctx, startLimit, "the API server", l.apiReady()); err != nil {
		return err
	}
	report("API server ready")
	applied := func(ctx context.Context) error {
		_, err := l.Kubectl(ctx, "apply", "-f", l.file("coredns.yaml"), "-f", l.file("metrics-server.yaml"))
		return err
	}
	if err := await(ctx, startLimit, "DNS and metrics to be installed", applied); err != nil {
		return err
	}
	for _, n := range l.nodes() {
		if err := await(ctx, startLimit, n.name(), n.isReady); err != nil {
			return err
		}
	}
	report("%d nodes ready", len(l.nodes()))
	return nil
}

func (n node) isReady(ctx context.Context) error {
	body, err := api{n.Layout}.get(ctx, "/api/v1/nodes/"+n.name())
	if err != nil {
		return err
	}
	var object struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := json.Unmarshal(body, &object); err != nil {
		return fmt.Errorf("read the node's state: %w", err)
	}
	for _, c := range object.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			return nil
		}
		if c.Type == "Ready" {
			return fmt.Errorf("the node is not ready: %s", c.Message)
		}
	}
	return fmt.Errorf("the node has no Ready condition")
}

// awaitReady waits until DNS serves and the Metrics API has a reading of every pod.
func (l api) awaitReady(ctx context.Context, report progress) error {
	for _, deployment := range []string{"coredns", "metrics-server"} {
		_, err := l.Kubectl(ctx, "--namespace", "kube-system", "rollout", "status", "deployment/"+deployment, "--timeout", startLimit.String())
		if err != nil {
			return fmt.Errorf("wait for %s: %w", deployment, err)
		}
		report("%s ready", deployment)
	}
	if err := await(ctx, startLimit, "the Metrics API", l.metricsReady); err != nil {
		return err
	}
	report("Metrics API has readings")
	account := func(ctx context.Context) error {
		_, err := l.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
		return err
	}
	return await(ctx, startLimit, "the default service account", account)
}

func (l api) metricsReady(ctx context.Context) error {
	body, err := l.get(ctx, "/apis/metrics.k8s.io/v1beta1/namespaces/kube-system/pods")
	if err != nil {
		return err
	}
	var list struct {
		Items []struct {
			Containers []struct{ Usage map[string]string }
		}
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("read the Metrics API: %w", err)
	}
	if len(list.Items) < 2 {
		return fmt.Errorf("the Metrics API has readings of %d pods, not of 2", len(list.Items))
	}
	return nil
}
