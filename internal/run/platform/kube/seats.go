package kube

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// seat is a number among the pods of a service. A pod that comes in the place of one that a fault ended takes its seat,
// so that people and results find it where it was.
type seat struct {
	pods []string // one for each of its lives, the present or the last one at the end
	// vacant says that a fault has ended the last one, and that the next pod of the service takes the seat.
	vacant bool
	// taken away by a fault that scaled the service down: no pod takes it before the service is scaled up.
	away bool
}

// seated is the number of a pod among those of its service, and which life of that number it is, from 1. d.mu is held.
func (d *deployment) seated(service, pod string) (number, life int) {
	for i, s := range d.seats[service] {
		if j := slices.Index(s.pods, pod); j >= 0 {
			return i, j + 1
		}
	}
	for i, s := range d.seats[service] {
		if s.vacant && !s.away {
			s.pods, s.vacant = append(s.pods, pod), false
			return i, len(s.pods)
		}
	}
	d.seats[service] = append(d.seats[service], &seat{pods: []string{pod}})
	return len(d.seats[service]) - 1, 1
}

// podName names a pod of the trial as people and results do: its service and a number that it keeps.
func (d *deployment) podName(pod *corev1.Pod) string {
	name, _ := d.podLife(pod)
	return name
}

// podLife is a pod's name, and which life of it this pod is, from 1.
func (d *deployment) podLife(pod *corev1.Pod) (name string, life int) {
	service := d.serviceOf(pod)
	if index, ok := pod.Annotations[indexAnnotation]; ok && service == loadService {
		return loadService + "-" + index, 1
	}
	if service == "" {
		return pod.Name, 1
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	number, life := d.seated(service, pod.Name)
	return numbered(service, number), life
}

func numbered(service string, number int) string { return fmt.Sprintf("%s-%d", service, number) }
