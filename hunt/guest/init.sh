#!/bin/busybox sh
# The first process of a Linux that is hunted.
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t tmpfs tmp /tmp
echo "hunt: user"
case "$(/bin/busybox cat /proc/cmdline)" in
*hunt.symbols*)
    echo "hunt: symbols"
    # Functions, and where x86-64 keeps the task that runs.
    /bin/busybox grep -i -e ' [tw] ' -e ' current_task$' -e ' pcpu_hot$' /proc/kallsyms | /bin/busybox gzip -c | /bin/busybox base64
    echo "hunt: end of symbols"
    /bin/busybox poweroff -f
    ;;
esac
if [ -e /run ]; then
    cd /tmp
    . /run
    echo "hunt: done"
    /bin/busybox poweroff -f
fi
/stress
i=0
while [ $i -lt 20 ]; do
    /bin/busybox ls / | /bin/busybox wc > /dev/null
    /bin/busybox sh -c '/bin/busybox true'
    i=$((i + 1))
done
/stress &
/stress &
wait
echo "hunt: done"
/bin/busybox poweroff -f
