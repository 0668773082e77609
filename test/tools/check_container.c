/*
 * Container and pod of a process, by the lines of /proc/PID/cgroup that runtimes make.
 */
#include <check.h>
#include <string.h>

#include "test/pool/check_main.h"
#include "tools/machine/processes.h"

#define ID  "4f0c5ad1b2e37788990011223344556677889900aabbccddeeff001122334455"
#define UID "0f3c9e1a-77b2-4c55-9d3e-1a2b3c4d5e6f"

static void expect(const char *groups, const char *container, const char *pod)
{
  char found_container[GP_CONTAINER_BYTES], found_pod[GP_POD_BYTES];
  gp_container_of_groups(groups, found_container, found_pod);
  ck_assert_str_eq(found_container, container);
  ck_assert_str_eq(found_pod, pod);
}

START_TEST(test_runtimes)
{
  expect("0::/system.slice/docker-" ID ".scope\n", "4f0c5ad1b2e3", "");
  expect("12:memory:/docker/" ID "\n1:name=systemd:/docker/" ID "\n", "4f0c5ad1b2e3", "");
  expect("0::/machine.slice/libpod-" ID ".scope/container\n", "4f0c5ad1b2e3", "");
  expect(
      "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0f3c9e1a_77b2_4c55_9d3e_1a2b3c4d5e6f.slice/"
      "cri-containerd-" ID ".scope\n",
      "4f0c5ad1b2e3", UID);
  expect("0::/kubepods/besteffort/pod" UID "/" ID "\n", "4f0c5ad1b2e3", UID);
}
END_TEST

START_TEST(test_no_container)
{
  expect("", "", "");
  expect("0::/\n", "", "");
  expect("0::/user.slice/user-1000.slice/session-3.scope\n", "", "");
  expect("0::/docker/4f0c5ad1b2e3\n", "", "");      /* shorter than an id */
  expect("0::/docker/" ID "0\n", "", "");           /* longer */
  expect("0::/podman-pod/pod0f3c9e1a/x\n", "", ""); /* no UID */
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("container");
  TCase *cases = tcase_create("control groups");
  tcase_add_test(cases, test_runtimes);
  tcase_add_test(cases, test_no_container);
  suite_add_tcase(suite, cases);
  return gp_check_main(suite);
}
