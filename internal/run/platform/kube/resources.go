package kube

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
)

// What every container asks for where the experiment does not say, whatever the treatment: little, so that many fit on
// a node, no limit on CPU, since throttling would be measured as the application's, and one on memory.
const (
	requestCPU    = experiment.Cores(0.010)
	requestMemory = 16 << 20  // bytes
	limitMemory   = 512 << 20 // bytes, beside what the service is told to hold
)

// planeOfContainer is the plane whose resources a container of tare's has.
func planeOfContainer(name string) metric.Plane {
	if name == loadContainer || name == bringContainer {
		return metric.Load
	}
	return metric.App
}

// resources are what a container asks for and may have. It is told to hold memory besides what it needs. A limit that
// is given is the limit; what is asked for by default is never above it, nor a default limit below what is asked for.
func (d *deployment) resources(container string, memory app.Size) corev1.ResourceRequirements {
	given := d.platform.options.Resources[string(planeOfContainer(container))]
	limits := given.Limits
	if limits.Memory == 0 {
		limits.Memory = max(limitMemory+memory, given.Requests.Memory)
	}
	requests := given.Requests
	if requests.CPU == 0 {
		if requests.CPU = requestCPU; limits.CPU != 0 {
			requests.CPU = min(requestCPU, limits.CPU)
		}
	}
	if requests.Memory == 0 {
		requests.Memory = min(requestMemory, limits.Memory)
	}
	return corev1.ResourceRequirements{Requests: quantities(requests), Limits: quantities(limits)}
}

func quantities(a experiment.Amounts) corev1.ResourceList {
	list := corev1.ResourceList{}
	if a.CPU != 0 {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(math.Round(1000*float64(a.CPU))), resource.DecimalSI)
	}
	if a.Memory != 0 {
		list[corev1.ResourceMemory] = *resource.NewQuantity(int64(a.Memory), resource.BinarySI)
	}
	return list
}
