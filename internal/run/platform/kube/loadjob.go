package kube

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// loadJob is the Job of the load workers: one pod each, told apart by their index.
func (d *deployment) loadJob() *batchv1.Job {
	n, mode, never := int32(d.LoadWorkers()), batchv1.IndexedCompletion, int32(0)
	pod := d.workerPod()
	d.bring(&pod)
	d.place(&pod, loadService, true)
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: podLabels(loadService)}, Spec: pod}
	d.enrolment.enrolLoad(&template)
	return &batchv1.Job{
		ObjectMeta: d.meta(loadService),
		Spec: batchv1.JobSpec{
			Parallelism: &n, Completions: &n, CompletionMode: &mode,
			BackoffLimit: &never, // a worker that is gone spoils its trial: another in its place would not mend it
			Template:     template,
		},
	}
}

// workerPod is a pod of one load worker, which commands are given to over a forwarded connection.
func (d *deployment) workerPod() corev1.PodSpec {
	c := d.container(loadContainer, 0, "worker", "--listen", "127.0.0.1:"+strconv.Itoa(workerPort),
		"--token-file", tokenDir+"/"+tokenKey, "--dir", tmpDir)
	c.VolumeMounts = append(c.VolumeMounts, tokenMount)
	pod := basePod(c)
	pod.Volumes = append(pod.Volumes, tokenVolume())
	pod.RestartPolicy = corev1.RestartPolicyNever
	return pod
}
