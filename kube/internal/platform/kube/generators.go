package kube

import (
	_ "embed" // generators.yaml
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

// GeneratorImage is the image of a load generator that is not part of tare.
type GeneratorImage struct {
	Image  string `json:"image"`
	Digest string `json:"digest,omitempty"` // sha256:…, "" if unknown
	Path   string `json:"path"`             // of the program in the image, "" for its own name in /
	User   int64  `json:"user,omitempty"`   // user ID it runs as, 0 for the default
}

// Reference is the image reference for the kubelet, with the digest if it is known.
func (g GeneratorImage) Reference() string {
	if g.Digest == "" {
		return g.Image
	}
	return g.Image + "@" + g.Digest
}

// GeneratorImages are the images shipped with tare, by generator.
func GeneratorImages() (map[string]GeneratorImage, error) {
	var known map[string]GeneratorImage
	if err := yaml.UnmarshalStrict(generatorImages, &known); err != nil {
		return nil, fmt.Errorf("read the images of load generators: %w", err)
	}
	return known, nil
}

// In a load worker that runs a generator's image, tare-agent is copied to agentDir by the init container copyContainer.
const (
	agentDir      = "/opt/tare"
	copyContainer = "agent"
)

// generatorImage is the image that the load workers of a trial run.
type generatorImage struct{ *trial }

// command is cmd in the image. tare-agent starts it at cmd.At, if that is set.
func (g generatorImage) command(cmd proc.Command) (program string, args []string) {
	program = g.path(cmd.Path)
	if cmd.At.IsZero() {
		return program, cmd.Args
	}
	return g.path(agentProgram), append([]string{"at", cmd.At.UTC().Format(time.RFC3339Nano), "--", program}, cmd.Args...)
}

// path is the path in the load workers' image of a program of this machine.
func (g generatorImage) path(program string) string {
	name := filepath.Base(program)
	image, separate := g.separate()
	switch {
	case !separate:
		return path.Join("/", name)
	case name == agentProgram:
		return path.Join(agentDir, name)
	case image.Path != "":
		return image.Path
	}
	return path.Join("/", name)
}

// addTo changes a load worker's pod to the image of the trial's generator. The init container first copies tare-agent
// to a volume of both.
func (g generatorImage) addTo(pod *corev1.PodSpec, first corev1.Container) {
	image, ok := g.separate()
	if !ok {
		return
	}
	mount := corev1.VolumeMount{Name: "agent", MountPath: agentDir}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: mount.Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	first.Args = []string{"copy", path.Join(agentDir, agentProgram)}
	first.VolumeMounts = append(first.VolumeMounts, mount)
	pod.InitContainers = append(pod.InitContainers, first)
	load := &pod.Containers[0]
	load.Image, load.ImagePullPolicy = image.Reference(), pullPolicy(image.Image)
	load.Command = []string{path.Join(agentDir, agentProgram)}
	mount.ReadOnly = true
	load.VolumeMounts = append(load.VolumeMounts, mount)
	if image.User != 0 {
		load.SecurityContext.RunAsUser = &image.User
	}
}

// separate is the image of the trial's generator, or false if the generator is in tare-agent's image.
func (g generatorImage) separate() (GeneratorImage, bool) {
	image, ok := g.options.Generators[g.spec.Treatment.Levels.Generator]
	return image, ok && image.Image != ""
}
