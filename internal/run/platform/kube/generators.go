package kube

import (
	_ "embed" // the images of generators
	"fmt"
	"path"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/base/proc"
)

//go:embed generators.yaml
var generatorImages []byte

// GeneratorImage is where a load generator that is not tare's own comes from.
type GeneratorImage struct {
	Image  string `json:"image"`
	Digest string `json:"digest,omitempty"` // sha256:…; empty: not known
	Path   string `json:"path"`             // of its program in the image; empty: at the root, by its own name
	User   int64  `json:"user,omitempty"`   // number it runs as; 0: tare's own
}

// Reference is what the nodes are asked for.
func (g GeneratorImage) Reference() string {
	if g.Digest == "" {
		return g.Image
	}
	return g.Image + "@" + g.Digest
}

// GeneratorImages are the images that are known, by the generators' names.
func GeneratorImages() (map[string]GeneratorImage, error) {
	var known map[string]GeneratorImage
	if err := yaml.UnmarshalStrict(generatorImages, &known); err != nil {
		return nil, fmt.Errorf("read the images of load generators: %w", err)
	}
	return known, nil
}

// Where tare-agent stands in a load worker whose image is a generator's: it is brought there.
const (
	broughtDir     = "/opt/tare"
	bringContainer = "agent"
)

// foreign is the image of the trial's generator; false: it is in the image of tare-agent.
func (d *deployment) foreign() (GeneratorImage, bool) {
	g, ok := d.platform.options.Generators[d.spec.Treatment.Levels.Generator]
	return g, ok && g.Image != ""
}

// inImage is where a program of this machine is in the load workers' image.
func (d *deployment) inImage(program string) string {
	name := filepath.Base(program)
	g, foreign := d.foreign()
	switch {
	case !foreign:
		return path.Join("/", name)
	case name == agentProgram:
		return path.Join(broughtDir, name)
	case g.Path != "":
		return g.Path
	}
	return path.Join("/", name)
}

// at is the command that waits for its instant, where it has one.
func (d *deployment) at(cmd proc.Command) (program string, args []string) {
	program = d.inImage(cmd.Path)
	if cmd.At.IsZero() {
		return program, cmd.Args
	}
	return d.inImage(agentProgram), append([]string{"at", cmd.At.UTC().Format(time.RFC3339Nano), "--", program}, cmd.Args...)
}

// bring has a load worker's pod run c, tare-agent's container, in the image of the trial's generator: a container before
// it copies tare-agent to where both see it.
func (d *deployment) bring(pod *corev1.PodSpec) {
	g, ok := d.foreign()
	if !ok {
		return
	}
	mount := corev1.VolumeMount{Name: "agent", MountPath: broughtDir}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: mount.Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	first := d.container(bringContainer, 0, "copy", path.Join(broughtDir, agentProgram))
	first.VolumeMounts = append(first.VolumeMounts, mount)
	pod.InitContainers = append(pod.InitContainers, first)
	load := &pod.Containers[0]
	load.Image, load.ImagePullPolicy = g.Reference(), pullPolicy(g.Image)
	load.Command = []string{path.Join(broughtDir, agentProgram)}
	mount.ReadOnly = true
	load.VolumeMounts = append(load.VolumeMounts, mount)
	if g.User != 0 {
		load.SecurityContext.RunAsUser = &g.User
	}
}
