//! The guest's registers, by name.

use core::{
    cell::Cell,
    ffi::{CStr, c_uint},
    ptr, slice,
};
use std::collections::HashMap;

use crate::ffi;

/// The registers that QEMU has, with the handles by which they are read. A handle is the same for all CPUs: what is
/// read is the register of the CPU whose callback runs.
pub(crate) struct Registers {
    handles: HashMap<String, usize>,
}

thread_local! {
    /// A buffer of glib's for each thread; never freed, as threads are CPUs.
    static BUFFER: Cell<*mut ffi::Array> = const { Cell::new(ptr::null_mut()) };
}

impl Registers {
    /// Lists them. Only in the callback for a new CPU does QEMU know them.
    pub(crate) fn list() -> Self {
        // SAFETY: QEMU is at the callback for a new CPU, so it may be asked. It gives an array of glib's, which is
        // ours to keep; its elements are descriptors.
        let descriptors = unsafe {
            let array = &*ffi::qemu_plugin_get_registers();
            slice::from_raw_parts(array.data.cast::<ffi::Descriptor>(), array.length as usize)
        };
        let named = |descriptor: &ffi::Descriptor| {
            // SAFETY: names are strings of C that live as long as QEMU.
            let name = unsafe { CStr::from_ptr(descriptor.name) };
            (name.to_string_lossy().into_owned(), descriptor.handle as usize)
        };
        Self { handles: descriptors.iter().map(named).collect() }
    }

    pub(crate) fn handle(&self, name: &str) -> Option<Handle> {
        self.handles.get(name).copied().map(Handle)
    }

    pub(crate) fn need(&self, name: &str) -> Handle {
        self.handle(name).unwrap_or_else(|| {
            eprintln!("lookaside: this CPU model has no register `{name}`; try another -cpu");
            std::process::exit(2)
        })
    }
}

/// A register.
#[derive(Clone, Copy)]
pub(crate) struct Handle(usize);

impl Handle {
    /// The value of the register, for the CPU whose callback runs.
    pub(crate) fn read(self) -> u64 {
        let buffer = BUFFER.get();
        let buffer = if buffer.is_null() {
            // SAFETY: glib is there, as QEMU is.
            let new = unsafe { ffi::g_byte_array_new() };
            BUFFER.set(new);
            new
        } else {
            buffer
        };
        // SAFETY: the buffer is glib's and this thread's alone; the handle came from QEMU's list. QEMU appends the
        // register's bytes, in the guest's order, which is little-endian.
        unsafe {
            ffi::g_byte_array_set_size(buffer, 0);
            ffi::qemu_plugin_read_register(self.0 as *mut ffi::Register, buffer);
            let length = ((*buffer).length as c_uint).min(8) as usize;
            let mut bytes = [0; 8];
            ptr::copy_nonoverlapping((*buffer).data, bytes.as_mut_ptr(), length);
            u64::from_le_bytes(bytes)
        }
    }
}
