#!/usr/bin/env bash
# Makes five machines of namespaces and an origin, then runs page.sh in work/ with ssh, scp and systemctl that reach them.
# Runs in namespaces of its own (network, mounts, processes), which end with it.
set -euo pipefail

readonly HERE=$PWD
mkdir -p bin origin work
mount --make-rprivate /

# The network of the machines, and the origin at its end.
ip link set lo up
ip link add fleet type bridge
ip addr add 192.0.2.254/24 dev fleet
ip link set fleet up
echo 'the first film' >origin/film.txt
(cd origin && exec python3 -u -m http.server --bind 192.0.2.254 8080 >/dev/null 2>"$HERE/origin.log") &

# Names that every machine resolves.
mount -t tmpfs tmpfs /mnt
cp -a /etc/. /mnt/
mount --move /mnt /etc
for number in 1 2 3 4 5; do echo "192.0.2.$number edge$number" >>/etc/hosts; done

# A machine: its own network, host name, and directories that begin empty.
machine() {
  local number=$1 name=edge$1 pid
  unshare --net --uts --mount sleep infinity &
  pid=$!
  until [ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ] && [ "$(cat "/proc/$pid/comm")" = sleep ]; do
    sleep 0.02
  done
  echo "$pid" >"$HERE/$name.pid"
  ip link add "to$number" type veth peer name inside netns "$pid"
  ip link set "to$number" master fleet up
  nsenter --target "$pid" --net --uts --mount bash -euo pipefail -s <<INSIDE
hostname $name
ip link set lo up
ip addr add 192.0.2.$number/24 dev inside
ip link set inside up
mount -t tmpfs tmpfs /mnt
cp -a /etc/. /mnt/
mount --move /mnt /etc
rm -rf /etc/penstock /etc/systemd/system/penstock*
for directory in /usr/local/bin /dev/shm /run /var/lib /var/log /srv; do mount -t tmpfs -o mode=755 tmpfs "\$directory"; done
chmod 1777 /dev/shm
mkdir -p /etc/systemd/system
INSIDE
}
for number in 1 2 3 4 5; do machine "$number"; done

# ssh root@NAME COMMAND...
cat >bin/ssh <<SSH
#!/usr/bin/env bash
set -euo pipefail
name=\${1#root@}
shift
exec nsenter --target "\$(cat "$HERE/\$name.pid")" --net --uts --mount env PATH="/usr/local/bin:$HERE/inside:\$PATH" bash -c "\$*"
SSH

# scp -q FILE... root@NAME:PATH
cat >bin/scp <<'SCP'
#!/usr/bin/env bash
set -euo pipefail
[ "$1" = -q ] && shift
target=${!#}
host=${target%%:*} path=${target#*:}
for file in "${@:1:$#-1}"; do
  to=$path
  case $path in */) to=$path$(basename "$file") ;; esac
  # As another file: the old one may be running.
  ssh "$host" "cat > '$to.part' && mv '$to.part' '$to'" <"$file"
done
SCP

# The commands that a machine has beside those of this one.
mkdir -p inside
cat >inside/apt-get <<'APT'
#!/usr/bin/env bash
# The package is installed already.
exit 0
APT

# systemctl VERB [--now] [UNIT], for what the units of the page do.
cat >inside/systemctl <<'SYSTEMCTL'
#!/usr/bin/env bash
set -euo pipefail
unit=${!#} verb=$1

start_redis() {
  install -d -m 750 -o redis -g redis /run/redis /var/lib/redis /var/log/redis
  setpriv --reuid redis --regid redis --init-groups redis-server /etc/redis/redis.conf --daemonize yes >/dev/null
}

start_penstock() {
  local unit=/etc/systemd/system/penstock.service command
  # The last one holds.
  command=$(sed -n 's/^ExecStart=//p' "$unit" "$unit.d/environment.conf" | tail -n 1)
  set -a
  . "$(sed -n 's/^EnvironmentFile=//p' "$unit.d/environment.conf")"
  set +a
  # As User=, AmbientCapabilities= and UMask= of the unit say.
  umask 077
  setpriv --reuid penstock --regid penstock --init-groups --inh-caps=-all,+net_bind_service --ambient-caps=-all,+net_bind_service \
    --bounding-set=-all,+net_bind_service $command >>/run/penstock.log 2>&1 </dev/null &
  echo $! >/run/penstock.pid
  # Type=notify: until it is ready.
  until grep -q 'ready, workers' /run/penstock.log; do
    kill -0 "$(cat /run/penstock.pid)" || { cat /run/penstock.log >&2; exit 1; }
    sleep 0.05
  done
}

# The successor of a hand-over, of which the process before it tells systemd and the log.
main_process() {
  local successor
  successor=$(sed -n 's/.* process \([0-9]*\) has taken over.*/\1/p' /run/penstock.log | tail -n 1)
  echo "${successor:-$(cat /run/penstock.pid)}"
}

case "$verb $unit" in
  'daemon-reload daemon-reload' | 'enable redis-server') ;;
  'restart redis-server') start_redis ;;
  'enable penstock') start_penstock ;;
  'reload penstock') kill -HUP "$(cat /run/penstock.pid)" ;;
  'kill penstock') kill -USR2 "$(main_process)" ;;
  'show penstock') main_process ;;
  *) echo "systemctl: cannot $*" >&2 && exit 1 ;;
esac
SYSTEMCTL
chmod +x bin/* inside/*

cd work
PATH="$HERE/bin:$PATH" bash ../page.sh
